package deadletter

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/publisher"
)

// TestAnUndecidedReplayIsRepeated: package publisher advises to publish an undecided message again. After a replay its
// dead letter stays, and would be published too.
func TestAnUndecidedReplayIsRepeated(t *testing.T) {
	err := asReplay(&publisher.Error{ID: "a", Key: "q", Undecided: true, Err: context.DeadlineExceeded})
	if text := err.Error(); strings.Contains(text, "publish it again") || !strings.HasSuffix(text, "repeat the replay") {
		t.Errorf("the advice is to publish by hand: %v", err)
	}
	if fateOf(err) != undecided || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no longer an undecided publish at its deadline", err)
	}
	if refused := (&publisher.Error{Err: publisher.ErrUnroutable}); !errors.Is(asReplay(refused), refused) {
		t.Error("the error of a message that is in no queue has changed")
	}
}
