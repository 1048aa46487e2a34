package deadletter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
)

// TestOwn has several dead messages of one id, which are counted in one record. It describes the death of one.
func TestOwn(t *testing.T) {
	once := counter.Tokens{{Name: "a", Kind: counter.KindFailed}}
	again := counter.Tokens{{Name: "a", Kind: counter.KindNotCounted}, {Name: "b", Kind: counter.KindFailed}}
	const none, has = "", "boom"
	for name, tc := range map[string]struct {
		tokens counter.Tokens
		ago    []time.Duration // of each death, before the record's last failed attempt
		count  int64
		want   []string
	}{
		"one":                           {once, []time.Duration{0}, 1, []string{has}},
		"one, the store's clock fast":   {once, []time.Duration{time.Minute}, 1, []string{has}},
		"one that was stopped":          {again, []time.Duration{time.Second}, 1, []string{has}},
		"the id was used again":         {again, []time.Duration{time.Minute, 0}, 1, []string{none, has}},
		"and only the first is left":    {again, []time.Duration{time.Minute}, 1, []string{none}},
		"and only the second is left":   {again, []time.Duration{-time.Second}, 1, []string{has}},
		"within a second":               {again, []time.Duration{time.Second, 0}, 1, []string{none, has}},
		"in the same second":            {again, []time.Duration{0, 0}, 1, []string{none, has}},
		"two at the same time":          {once, []time.Duration{0, 0}, 1, []string{has, none}},
		"two, the second found it dead": {once, []time.Duration{0, -time.Minute}, 1, []string{has, none}},
		"3.10 keeps the first time":     {again, []time.Duration{time.Hour}, 3, []string{has}},
	} {
		var messages []*Message
		for _, ago := range tc.ago {
			r := counter.Record{State: counter.StateDeadLetter, Tokens: tc.tokens, LastTime: died, Reason: has}
			messages = append(messages, &Message{ID: "17", Origin: Death{Queue: "orders", Time: died.Add(-ago), Count: tc.count},
				Record: &r})
		}
		own(messages)
		var got []string
		for _, m := range messages {
			got = append(got, m.Reason())
			if m.Shared != (m.Record == nil) {
				t.Errorf("%s: shared %v", name, m.Shared)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestOwnEach: messages of other ids, generations and queues are none of each other's concern.
func TestOwnEach(t *testing.T) {
	var messages []*Message
	for _, of := range []counter.Message{{Queue: "orders", ID: "1"}, {Queue: "orders", ID: "1", Generation: "header:2"},
		{Queue: "orders", ID: "2"}, {Queue: "eu", ID: "1"}} {
		messages = append(messages, &Message{ID: of.ID, Queue: of.Queue, diedIn: of.Generation,
			Origin: Death{Queue: of.Queue, Time: died},
			Record: &counter.Record{State: counter.StateDeadLetter, LastTime: died}})
	}
	own(messages)
	for _, m := range messages {
		if m.Record == nil {
			t.Errorf("%+v has no record", m)
		}
	}
}
