"""The suites. Each module has SIZED (whether it depends on --size), NOTES
(lines for the head of its baseline) and run(run), which returns its Results."""
