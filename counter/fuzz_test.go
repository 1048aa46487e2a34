package counter

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// FuzzSteps takes every step with names and texts that a publisher or a handler chose, in memory and on a fake Redis:
// both answer alike and keep alike, and a message that is named otherwise is left alone.
func FuzzSteps(f *testing.F) {
	f.Add("/", "orders", "1", "", "t-1", "host, pid 1", "boom", 4, int64(0))
	f.Add("\x00", "%", "\xff\xfe", "1@-62135596800", "_", "", "\x1b[31m\r\n", 1, int64(-1))
	f.Add("a/b}{", "{}", "=;:", "header:;=", "a=f;b", "=", ";", 0, int64(math.MaxInt64))
	f.Add("", "q", strings.Repeat("é", 300), strings.Repeat("l", 600), strings.Repeat("t", 64),
		"0", strings.Repeat("\xe2\x82", 600), -1, int64(math.MinInt64))
	f.Add("nil", "-0", "nan", "inf", "1e9", "false", "0x10", math.MaxInt, int64(time.Hour))
	server := miniredis.RunT(f)
	f.Fuzz(func(t *testing.T, vhost, queue, id, generation, token, consumer, reason string, limit int, wait int64) {
		server.FlushAll()
		memory := NewMemory(nil)
		redis, err := Dial("redis://"+server.Addr(), nil)
		need(t, err)
		defer redis.Close()
		a := Attempt{Message: Message{VHost: vhost, Queue: queue, ID: id, Generation: generation}, Token: token,
			Consumer: consumer}
		failure := Failure{Limit: limit, Wait: time.Duration(wait), Reason: reason}
		for i, take := range []func(attempts) (Reply, error){
			func(s attempts) (Reply, error) { return s.Fail(t.Context(), a, failure) },
			func(s attempts) (Reply, error) { return s.Start(t.Context(), a, rules.ModeShared, limit) },
			func(s attempts) (Reply, error) { return s.Start(t.Context(), a, rules.ModeIsolated, limit) },
			func(s attempts) (Reply, error) { return s.Begun(t.Context(), a) },
			func(s attempts) (Reply, error) { return Reply{}, s.End(t.Context(), a, wait < 0) },
		} {
			want, err1 := take(memory)
			got, err2 := take(redis)
			want.Wait, got.Wait = want.Wait.Round(time.Minute), got.Wait.Round(time.Minute)
			if (err1 == nil) != (err2 == nil) || want != got {
				t.Fatalf("step %d: in memory %+v, %v; on Redis %+v, %v", i, want, err1, got, err2)
			}
		}
		alike(t, memory, redis, a.Message)
		if r, err := redis.Admin().Get(context.Background(), vhost, queue+"+", id); len(r) > 0 || err != nil {
			t.Errorf("queue %q+ has records of %q: %+v, %v", queue, queue, r, err)
		}
	})
}

// alike compares the records of a message in both.
func alike(t *testing.T, memory *Memory, redis *Counter, m Message) {
	t.Helper()
	tolerant := cmp.Options{
		cmpopts.EquateApproxTime(time.Minute),
		cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Minute }),
	}
	want := memory.Counter.look(t, m).Record
	want.ID, want.Generation, want.Consumer = printable.Cut(want.ID, rules.MaxStoredID), printable.Cut(want.Generation,
		rules.MaxStoredID), printable.Cut(want.Consumer, rules.MaxStoredID)
	if diff := cmp.Diff(want, redis.look(t, m).Record, tolerant); diff != "" {
		t.Errorf("-memory +redis:\n%s", diff)
	}
}

// FuzzReplies: a reply of any form and depth is read or refused.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		`["RUN",0,0,4,1,0,"failed",""]`, `["RUN",0,0,4,1,0,"","",0]`, `["RUN",0,0,4,1,0]`,
		`["RUN",0,0,4,1,9223372036854775807,null,null]`,
		`["WAIT",-1,0,4,1,0,"failed",""]`, `["SUSPECT",0.5,0,4,1,0,"failed",""]`, `[["RUN"],[0],{},4,1,0,"failed",""]`,
		`[null,null,null,null,null,null,null,null]`,
		`"OK"`, `0`, `null`, `[]`, `{"RUN":0}`, `[[[[[[[]]]]]]]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		got, err := parseReply(integers(v))
		if err != nil && (!errors.Is(err, ErrReply) || got != (Reply{}) || len(err.Error()) > 1000) {
			t.Errorf("%+v, %v", got, err)
		}
		if err == nil && (!got.Code.OfScript() || got.Wait < 0 || got.Counted() < 0 || got.Limit < 0 || got.Fence < 0) {
			t.Errorf("read as %+v", got)
		}
	})
}

// integers turns whole numbers into int64, as go-redis returns them.
func integers(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		n, _ := v.Float64()
		return n
	}
	return v
}

// FuzzRecord: a record that something else wrote is read as far as it can be.
func FuzzRecord(f *testing.F) {
	f.Add("1 0 1 1700000000000000 0 . 0 1700000000000 500 1700000000000 5 failed p-1 isolated 1700000000000 0 4 0 " +
		".;p-1=f 1 0 4 0\na host.boom")
	f.Add("-1 9999999999999999999 0x1 9223372036854775807 2 dead -62135596800000 1e9 9223372036854775807 " +
		"9223372036854775807 9223372036854775807 . . EXCLUSIVE . 0 0 0 =;=;;=f;a==f 1 1 1 1\n")
	f.Add("1 0 1 0 0 . 0 0 0 0 0 . . . 0 0 4 7 . 2 0 0 25\nid" + "reset 1700000000000 3 4\njoe" + "whyreason")
	f.Add("1 0 1 0 0 . 0 0 0 0 0 . . . 0 0 4 7 . 99999999999999999999 -1 0 25\n")
	f.Add("1 0 1 0 0 . 0 0 0 1700000000000 5 failed . . 0 0 4 0 0 .;a=f 2 0 4 0 18\nm1host\nn5\t9\thost\tboom boom")
	f.Fuzz(func(t *testing.T, text string) {
		of := Queue{"/", "q"}
		r, ok := parseRecord(of, text)
		if r.VHost != "/" || r.Queue != "q" {
			t.Errorf("%q is of %q, %q", text, r.VHost, r.Queue)
		}
		if len(r.Tokens) > 1+strings.Count(text, ";") || len(r.ID)+len(r.Generation)+len(r.Consumer)+
			len(r.Reason) > len(text) {
			t.Errorf("%q was read as %+v", text, r)
		}
		if ok {
			again, _ := parseRecord(of, rules.Encode(r))
			if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" && canonical(r) {
				t.Errorf("%q was read and written as another record: -read +read again\n%s", text, diff)
			}
		}
		if !r.Due.IsZero() && r.Due.UnixMilli() <= 0 {
			t.Errorf("%q was read as due %v", text, r.Due)
		}
	})
}

// canonical reports whether a script can have written the text that was read as this record.
func canonical(r Record) bool {
	for _, t := range r.Tokens {
		if !validToken(t.Name) {
			return false
		}
	}
	for _, n := range r.History {
		if n.Cause == "" || n.Cause == CauseCrashed && !validToken(n.Token) || r.FirstTime.IsZero() {
			return false
		}
	}
	texts := []string{string(r.State), string(r.Cause), r.OpenToken, r.Move.Mover, r.Move.Body}
	return !slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsAny(s, " .:\n\t") }) &&
		len(r.ID) <= rules.MaxStoredID && len(r.Generation) <= rules.MaxStoredID && len(r.Consumer) <= rules.MaxStoredID
}
