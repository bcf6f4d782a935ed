"""What the interoperation suites share: servers, ports, results, golden files."""
