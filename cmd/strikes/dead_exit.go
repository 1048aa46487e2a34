package main

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/deadletter"
)

// deadError gives an error of package deadletter its exit code.
func deadError(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, deadletter.ErrUnsafe), errors.Is(err, deadletter.ErrBusy), errors.Is(err, deadletter.ErrNotFound),
		errors.Is(err, deadletter.ErrNoOrigin), errors.Is(err, deadletter.ErrTarget):
		return coded{err, exitUsage}
	case errors.Is(err, deadletter.ErrInterrupted), errors.Is(err, context.DeadlineExceeded):
		return coded{err, exitUnreachable}
	}
	return err
}
