package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

func numbered(n, size int) entry {
	return entry{line: n, msg: amqp.Publishing{Body: make([]byte, size)}}
}

func TestIntakeOrderAndEnd(t *testing.T) {
	in, cause := newIntake(), errors.New("bad line")
	for n := range 3 {
		need(t, in.put(t.Context(), numbered(n, 1)))
	}
	in.end(cause)
	batch, err := in.take(t.Context())
	if len(batch) != 3 || err != nil || batch[0].line != 0 || batch[2].line != 2 {
		t.Fatalf("%v, %v", batch, err)
	}
	if batch, err = in.take(t.Context()); batch != nil || !errors.Is(err, cause) {
		t.Errorf("%v, %v: the reader's error follows what was read before it", batch, err)
	}
}

// TestIntakeEndsWithItsContext: an interrupted publish begins no other batch, however fast the input comes.
func TestIntakeEndsWithItsContext(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	in := newIntake()
	for n := range 50 {
		need(t, in.put(t.Context(), numbered(n, 1)))
		if batch, err := in.take(ctx); batch != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d taken, %v", len(batch), err)
		}
	}
}

func TestIntakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		put := 0
		go func() {
			for {
				if in.put(t.Context(), numbered(put, 1)) != nil {
					return
				}
				put++
			}
		}()
		synctest.Wait()
		if put != intakeBytes/(entryBytes+1) {
			t.Errorf("%d entries wait", put)
		}
		batch, err := in.take(t.Context())
		if len(batch) != put || err != nil {
			t.Errorf("%d taken of %d, %v", len(batch), put, err)
		}
		in.done(batch)
		synctest.Wait()
		if put != 2*len(batch) {
			t.Errorf("%d put after %d were done with", put, len(batch))
		}
	})
}

func TestIntakeTakesWhatIsTooLarge(t *testing.T) {
	in := newIntake()
	need(t, in.put(t.Context(), numbered(1, 2*intakeBytes)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.put(ctx, numbered(2, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one fits beside it: %v", err)
	}
	if _, err := newIntake().take(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
