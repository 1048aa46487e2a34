package counter

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

// A foreign value at a record's key is omitted, and hides no record.
func TestForeignValues(t *testing.T) {
	for _, c := range servers(t) {
		for _, id := range []string{"text", "hash", "ours"} {
			mustFail(t, c, message(id), "a")
		}
		q := c.opts.queueKey("/", "orders") + "r:"
		text, hash := q+member("text", ""), q+member("hash", "")
		need(t, errors.Join(c.rdb.Set(t.Context(), text, "no record", 0).Err(), c.rdb.Del(t.Context(), hash).Err(),
			c.rdb.HSet(t.Context(), hash, "a", "b").Err()))
		found, err := c.Admin().GetAll(t.Context(), "/", "orders", []string{"text", "hash", "ours"})
		if len(found["text"])+len(found["hash"]) > 0 || len(found["ours"]) != 1 || err != nil {
			t.Errorf("%+v, %v", found, err)
		}
		for name, list := range map[string]iter.Seq2[Record, error]{"list": c.Admin().List(t.Context(), "/", "orders"),
			"live": c.Admin().Live(t.Context(), "/", "orders")} {
			var ids []string
			for r, err := range list {
				need(t, err)
				ids = append(ids, r.ID)
			}
			if diff := cmp.Diff([]string{"ours"}, ids); diff != "" {
				t.Errorf("%s -want +got:\n%s", name, diff)
			}
		}
	}
}

// A value of another type in place of a limit fails every step: the error names it, and clearing the limit removes it.
func TestForeignLimit(t *testing.T) {
	for _, c := range servers(t) {
		key := c.opts.queueKey("/", "orders") + docLimit
		need(t, c.rdb.Set(t.Context(), key, "no limit", 0).Err())
		_, err := c.Admin().Limit(t.Context(), "/", "orders")
		for doing, err := range map[string]error{"get": err, "set": c.Admin().SetLimit(t.Context(), "/",
			"orders", Override{MaxRetries: new(3), Note: Note{Why: "why"}})} {
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", doing, err)
			}
		}
		if was, err := c.Admin().ClearLimit(t.Context(), "/", "orders"); !was || err != nil {
			t.Errorf("clear: %v, %v", was, err)
		}
		if err := c.Admin().SetLimit(t.Context(), "/",
			"orders", Override{MaxRetries: new(3), Note: Note{Why: "why"}}); err != nil {
			t.Error(err)
		}
	}
}

// A value of another type may be at any key that a step needs. The errors of steps and of reads say which keys those
// are and how to fix it.
func TestForeignKeys(t *testing.T) {
	for _, c := range servers(t) {
		k := c.opts.keys(message("a"))
		for key, by := range map[string]string{k.index: "fail list", k.override: "fail",
			k.tombstones: "exhaust list-tombstones take", k.record: "fail", k.dead: "exhaust list list-dead"} {
			need(t, errors.Join(c.rdb.Del(t.Context(), k.index, k.override, k.tombstones, k.record, k.dead).Err(),
				c.rdb.RPush(t.Context(), key, "foreign").Err()))
			for _, doing := range strings.Fields(by) {
				var err error
				switch doing {
				case "fail":
					_, err = c.Fail(t.Context(), attempt(message("a"), "1"), Failure{Limit: 4})
				case "exhaust":
					_, err = c.Fail(t.Context(), attempt(message("a"), "1"), Failure{})
				case "list":
					for _, err = range c.Admin().List(t.Context(), "/", "orders") {
					}
				case "list-dead":
					for _, err = range c.Admin().Dead(t.Context(), "/", "orders", "") {
					}
				case "list-tombstones":
					_, err = c.Admin().State(t.Context(), "/", "orders")
				case "take":
					mustDo(t, c.rdb, "DEL", key)
					need(t, errOf(c.Fail(t.Context(), attempt(message("a"), "1"), Failure{})))
					mustDo(t, c.rdb, "DEL", key)
					mustDo(t, c.rdb, "RPUSH", key, "foreign")
					err = c.Admin().NoteRemoved(t.Context(), "/", "orders", []Message{message("a")})
				}
				if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "DEL") {
					t.Errorf("%s with a list at %s: %v", doing, key, err)
				}
			}
		}
	}
}

// A reason that an operator writes is not read as an argument of the delay queues.
func TestWhyIsNoDelay(t *testing.T) {
	note := Note{By: "op", Why: "delay 5 0 0 ab"}
	for _, s := range stores(t) {
		changes := map[string]func(Message) error{
			"limit": func(m Message) error { return s.LimitMessage(t.Context(), m, 9, note) },
			"reset": func(m Message) error { return s.Reset(t.Context(), m, note) },
			"skip":  func(m Message) error { return errOf(s.Skip(t.Context(), m, note)) },
		}
		for name, change := range changes {
			m := message(name)
			need(t, errOf(s.Fail(t.Context(), attempt(m, "a"), again)))
			need(t, change(m))
			if move := s.look(t, m).Move; move != (rules.Move{}) {
				t.Errorf("%s: %s: the message counts as moved: %+v", s.name, name, move)
			}
		}
	}
}

// A step of an operator needs no pause: another program may have written to its key.
func TestForeignPause(t *testing.T) {
	for _, c := range servers(t) {
		mustDo(t, c.rdb, "RPUSH", c.opts.queueKey("/", "orders")+docPause, "foreign")
		for id, decide := range map[string]func(Message) error{
			"limit": func(m Message) error { return c.Admin().LimitMessage(t.Context(), m, 9, Note{Why: "why"}) },
			"reset": func(m Message) error { return c.Admin().Reset(t.Context(), m, Note{Why: "why"}) },
			"skip":  func(m Message) error { return errOf(c.Admin().Skip(t.Context(), m, Note{Why: "why"})) },
		} {
			mustFail(t, c, message(id), "a")
			if err := decide(message(id)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}
