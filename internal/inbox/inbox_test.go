package inbox

import (
	"context"
	"errors"
	"testing"
)

// TestWorkThatEndsAfterItsTime: the context has ended, and the function that AfterFunc has yet to call has not begun.
// The work is rolled back.
func TestWorkThatEndsAfterItsTime(t *testing.T) {
	ctx, tx := endedContext{t.Context(), make(chan struct{})}, &transaction{}
	in := Inbox[*transaction]{Begin: func(context.Context) (*transaction, *Database, error) { return tx, PostgreSQL, nil }}
	err := in.handle(ctx, mark{queue: "orders", id: "17"}, func(*transaction) error {
		close(ctx.done)
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) || tx.committed || !tx.rolledBack {
		t.Errorf("%v, %+v", err, tx)
	}
}

// endedContext ends without calling a function of AfterFunc.
type endedContext struct {
	context.Context //nolint:containedctx // it is a context
	done            chan struct{}
}

func (c endedContext) Done() <-chan struct{} { return c.done }

func (c endedContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (endedContext) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

type transaction struct{ committed, rolledBack bool }

func (*transaction) Exec(context.Context, string, ...any) (int64, error) { return 1, nil }
func (t *transaction) Commit(context.Context) error                      { t.committed = true; return nil }
func (t *transaction) Rollback(context.Context) error                    { t.rolledBack = true; return nil }
