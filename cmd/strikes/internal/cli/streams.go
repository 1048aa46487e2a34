// Package cli is the frame of a command: its streams, flags, environment, exit codes, signals and log.
package cli

import "io"

// Streams connect a command to the outside.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	Now <-chan struct{} // closes when the command must end without waiting for anything
}
