// Package systemd tells systemd how a service does (sd_notify), by the socket that it
// names in NOTIFY_SOCKET. Elsewhere nothing is told.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// patience is how long Notify waits for a systemd that does not read: its socket holds a few messages.
var patience = time.Second

// Notify sends a state, such as "READY=1" or "STATUS=loading"; several are separated by
// line feeds. It does nothing if there is no NOTIFY_SOCKET. If systemd does not take the state within
// a second, it is lost, and the error is os.ErrDeadlineExceeded.
func Notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] == '@' { // of the abstract namespace
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	defer c.Close() // what was written is sent
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	return nil
}

// watchdog returns the time within which systemd wants to hear of this process; 0 if it
// does not wait for it.
func watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

// Watchdog calls alive twice within each period that systemd has set, and tells systemd
// when it has returned, until ctx ends. If alive does not return, systemd ends the
// process and starts it again. It returns at once if systemd has set no period. A systemd that does
// not read for a while is told again.
func Watchdog(ctx context.Context, alive func()) error {
	period := watchdog()
	if period == 0 {
		return nil
	}
	tick := time.NewTicker(period / 2)
	defer tick.Stop()
	for {
		alive()
		if err := Notify("WATCHDOG=1"); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
