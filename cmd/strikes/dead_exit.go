package main

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
)

// withCode gives an error of package deadletter its exit code.
func withCode(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, deadletter.ErrUnsafe), errors.Is(err, deadletter.ErrBusy),
		errors.Is(err, deadletter.ErrQueueNotFound),
		errors.Is(err, deadletter.ErrNoOrigin), errors.Is(err, deadletter.ErrTarget):
		return cli.WithCode(err, cli.ExitMisuse)
	case errors.Is(err, deadletter.ErrInterrupted), errors.Is(err, deadletter.ErrUnanswered),
		errors.Is(err, context.DeadlineExceeded):
		return cli.WithCode(err, cli.ExitUnreachable)
	}
	return err
}
