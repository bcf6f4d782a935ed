//go:build !unix

package cli

import "os/exec"

// ownGroup does nothing: there are no groups of processes here.
func ownGroup(*exec.Cmd) {}

// askToEnd kills the command: there is no other way here.
func askToEnd(cmd *exec.Cmd, group bool) { killCommand(cmd, group) }

// killCommand ends the command. That it has ended already is no error.
func killCommand(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

// endedBy is 0: there are no signals here.
func endedBy(*exec.ExitError) int { return 0 }
