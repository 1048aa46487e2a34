package counter

import (
	"cmp"
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

// Reader is a consumer that reads the Control of a queue, as it reports itself.
type Reader struct {
	Token    string  // unique to the consumer and queue, like Attempt.Token
	Consumer string  // its process, shown to operators
	Breaker  bool    // it has a breaker: it counts no failure while no message succeeds
	Stopped  bool    // it takes no deliveries of the queue and holds none
	Left     bool    // this is its last read: it is no longer among QueueState.Consumers
	Waiting  Waiting // the zero value: none
}

// readerDigits begin an entry of the set of consumers.
var readerDigits = map[string]string{"consuming": "0", "stopped": "1", "breaker": "2"}

func (r Reader) state() string {
	switch {
	case r.Left:
		return "left"
	case r.Stopped:
		return "stopped"
	case r.Breaker:
		return "breaker"
	}
	return "consuming"
}

// Control holds the requests of operators to the consumers of a queue: pauses and skips. The zero value has none.
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

// Control reads the requests of operators to the consumers of a queue, and reports the reader to operators. A consumer
// sends it once a second. After an error the last Control stays in force. A Token that is refused is a *FieldError.
func (c *Counter) Control(ctx context.Context, vhost, queue string, r Reader) (Control, error) {
	if err := checkOwner(queue, r.Token); err != nil {
		return Control{}, err
	}
	r.Consumer = printable.Cut(r.Consumer, rules.MaxStoredID)
	read := c.storedControl
	if c.rdb != nil {
		read = c.scriptedControl
	}
	control, err := read(ctx, Queue{vhost, queue}, r)
	return control, failed("control", queue, err)
}

func (c *client) scriptedControl(ctx context.Context, of Queue, r Reader) (Control, error) {
	keys := c.opts.controlKeys(of.VHost, of.Name)
	words, err := readControl.Run(ctx, c.rdb, keys, r.Token, r.Consumer, r.state(),
		rules.PauseTTL.Milliseconds()).StringSlice()
	switch {
	case err != nil && isForeign(err):
		return Control{}, fmt.Errorf("%w: one of %q has another type; inspect each with redis-cli TYPE, and remove that one "+
			"with DEL", ErrForeign, keys)
	case err != nil:
		return Control{}, c.storeError(err)
	case len(words) < 4:
		return Control{}, c.storeError(fmt.Errorf("%w: got %d values, want 4 at least", ErrReply, len(words)))
	}
	if text := r.Waiting.text(); text != "" && !r.Left { // after an error the next read reports it again
		key := c.opts.queueKey(of.VHost, of.Name) + docWaiting + r.Token
		_ = c.rdb.Set(ctx, key, text, waitingTTL).Err()
	}
	control := Control{Paused: words[0] == "1", Note: Note{By: words[1], At: millis(words[2]), Why: words[3]},
		skips: map[string]bool{}}
	for _, s := range words[4:] {
		control.skips[s] = true
	}
	return control, nil
}

// storedControl does the same as scripts/control.lua, on any Store.
func (c *client) storedControl(ctx context.Context, of Queue, r Reader) (control Control, err error) {
	err = c.insist(ctx, of, []string{docPause}, func(now time.Time, docs []Doc) (change Change, err error) {
		skips, err := c.store.Page(ctx, of, setSkips, Entry{}, skipsAnnounced)
		if err != nil || docs[0].Err != nil {
			return Change{}, cmp.Or(err, docs[0].Err)
		}
		control = Control{skips: map[string]bool{}}
		for _, e := range skips {
			if e.Score >= now.UnixMilli() {
				control.skips[e.Name] = true
			}
		}
		pause := docs[0]
		fields := decodeFields(pause.Data)
		if control.Paused, control.Note = fields["paused"] == "1", parseNote(fields); control.Paused &&
			pause.Expires.Before(now.Add(rules.PauseTTL-time.Hour)) { // seldom: a write has other processes read again
			pause.Expires = now.Add(rules.PauseTTL)
			change.Docs = append(change.Docs, pause)
		}
		own := readerDigits[r.state()] + " " + r.Token + " " + r.Consumer
		for found, err := range c.pages(ctx, of, setConsumers, Entry{}, page) {
			if err != nil {
				return Change{}, err
			}
			for _, e := range found {
				known, reader := parseReader(e)
				if isOwn := e.Name == own && !r.Left; !isOwn && (reader == r.Token ||
					now.Sub(known.Seen).Abs() >= forgottenReader) {
					change.Sets = append(change.Sets, Member{Set: setConsumers, Name: e.Name, Gone: true})
				}
			}
		}
		waiting := Doc{Name: docWaiting + r.Token, Any: true}
		if !r.Left {
			change.Sets = append(change.Sets, Member{Set: setConsumers, Name: own, Score: now.UnixMilli(),
				Expires: now.Add(forgottenReader)})
			waiting.Data, waiting.Expires = r.Waiting.text(), now.Add(waitingTTL)
		}
		change.Docs = append(change.Docs, waiting)
		return change, nil
	})
	return control, err
}

const (
	// forgottenReader is how long a process that does not read is listed.
	forgottenReader = time.Minute
	// skipsAnnounced is how many skips a Control has: the newest, as the others were announced before.
	skipsAnnounced = 100
)
