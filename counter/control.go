package counter

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// skipAnnounced is how long a skip is announced to the consumers of a queue. Its record keeps it after that.
const skipAnnounced = 10 * time.Minute

// Reader is a process that reads the Control of a queue, as it reports itself.
type Reader struct {
	Token    string  // unique to the process and queue, like Attempt.Token
	Consumer string  // the process, shown to operators
	Stopped  bool    // it takes no deliveries of the queue and holds none
	Left     bool    // this is its last read: it is no longer among the Consumers
	Waiting  Waiting // the zero value: none
}

func (r Reader) state() string {
	switch {
	case r.Left:
		return "left"
	case r.Stopped:
		return "stopped"
	}
	return "consuming"
}

// Control is what operators want of the consumers of a queue. The zero value wants nothing.
type Control struct {
	Paused bool
	Note   Note // of the pause, or of the last resume; zero if there was none
	skips  map[string]bool
}

// Skips reports whether an operator skipped a message in the last ten minutes: its next step need not wait. VHost and
// Queue of the message are those of the Control.
func (c Control) Skips(m Message) bool {
	return len(c.skips) > 0 && c.skips[member(m.ID, m.Generation)]
}

//go:embed scripts/control.lua
var controlLua string

var readControl = redis.NewScript(controlLua)

// Control reads what operators want of the consumers of a queue, and reports the reader to them. A process sends it
// once a second for each queue that it consumes. After an error the last Control stays in force. A Token that is
// refused is a *FieldError.
func (c *Counter) Control(ctx context.Context, vhost, queue string, r Reader) (Control, error) {
	if c.refuse != nil {
		return Control{}, c.refuse
	}
	if err := checkAttempt(Attempt{Message: Message{Queue: queue, ID: "-"}, Token: r.Token}); err != nil {
		return Control{}, err
	}
	keys := c.opts.controlKeys(vhost, queue)
	words, err := readControl.Run(ctx, c.rdb, keys, r.Token, printable.Cut(r.Consumer, rules.MaxStoredID), r.state(),
		rules.PauseTTL.Milliseconds()).StringSlice()
	if err == nil {
		_ = c.reportWaiting(ctx, vhost, queue, r) // the next read reports it again; the reply must take effect
	}
	if err == nil && len(words) < 4 {
		err = fmt.Errorf("%w: got %d values, want 4 at least", ErrReply, len(words))
	}
	if err != nil {
		return Control{}, fmt.Errorf("counter: control, queue %q: %w", queue, c.controlError(vhost, queue, err))
	}
	return parseControl(words), nil
}

func parseControl(words []string) Control {
	c := Control{Paused: words[0] == "1", Note: Note{By: words[1], At: millis(words[2]), Why: words[3]}}
	if skips := words[4:]; len(skips) > 0 {
		c.skips = map[string]bool{}
		for _, s := range skips {
			c.skips[s] = true
		}
	}
	return c
}

// controlError distinguishes keys that another program wrote from a failed store.
func (c *client) controlError(vhost, queue string, err error) error {
	if isForeign(err) {
		return fmt.Errorf("%w: one of %q has another type; inspect each with redis-cli TYPE, and remove that one with DEL",
			ErrForeign, c.opts.controlKeys(vhost, queue))
	}
	return c.storeError(err)
}
