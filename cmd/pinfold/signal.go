package main

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// toggleDebug lets SIGUSR2 change the level of the log between debug and what it was. The
// returned function ends that.
func toggleDebug(log *slog.Logger, level *slog.LevelVar) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	var wg sync.WaitGroup
	normal := max(level.Level(), slog.LevelInfo)
	wg.Go(func() {
		for range signals {
			if level.Level() == slog.LevelDebug {
				log.Info("the log level has changed", "level", normal.String())
				level.Set(normal)
				continue
			}
			level.Set(slog.LevelDebug)
			log.Info("the log level has changed", "level", slog.LevelDebug.String())
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		wg.Wait()
	}
}
