package counter

import (
	"context"
	flags "flag"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// faultyRules is a Memory with a fault in the step that its name names.
type faultyRules struct {
	*Memory
	fault string
}

func (f faultyRules) Start(ctx context.Context, a Attempt, mode rules.Mode, limit int) (Reply, error) {
	switch {
	case f.fault == "START loses the fence":
		a.Fence = 0
	case f.fault == "START opens an isolated attempt as shared" && mode == rules.ModeIsolated:
		mode = rules.ModeBesideAbandoned
	case f.fault == "START takes a redelivery for a first one":
		a.First = true
	case f.fault == "START ignores the age":
		a.MaxAge = 0
	}
	return f.Memory.Start(ctx, a, mode, limit)
}

func (f faultyRules) Fail(ctx context.Context, a Attempt, failure Failure) (Reply, error) {
	switch f.fault {
	case "FAIL allows one attempt more":
		failure.Limit++
	case "FAIL forgets the wait":
		failure.Wait = 0
	case "FAIL ignores the least limit":
		failure.AtMost = 0
	case "FAIL never holds the queue":
		a.HoldsQueue = false
	}
	return f.Memory.Fail(ctx, a, failure)
}

func (f faultyRules) End(ctx context.Context, a Attempt, succeeded bool) error {
	return f.Memory.End(ctx, a, succeeded && f.fault != "END forgets the success")
}

// faultsOfScripts are faults to put into the scripts, each with the text that it replaces.
var faultsOfScripts = []struct {
	of       *step
	was, now string
}{
	{&stepFail, "r.failures + 1)", "r.failures + 2)"},
	{&stepFail, "local spent, decides = failed >= s.limit", "local spent, decides = failed > s.limit"},
	{&stepFail, "not (known == 'f' and was == '.')", "true"},
	{&stepFail, "r.firsts ~= '2' then", "true then"},
	{&stepFail, "tokens .. ';' .. s.token .. '=f'", "tokens .. ';' .. s.token .. '=e'"},
	{&stepStart, "r.crashes + 1)", "r.crashes)"},
	{&stepStart, "code, r.suspect = 'SUSPECT', '1'", "code = 'SUSPECT'"},
	{&stepStart, "asked == 'isolated' and 'reserved' or 'shared'", "asked == 'isolated' and 'isolated' or 'shared'"},
	{&stepStart, "format('%d', r.starts + 1)", "r.starts"},
	{&stepStart, "spent = failed >= s.limit and r.binds == '0'", "spent = failed >= s.limit"},
	{&stepBegun, "'isolated', s.consumer", "'shared', s.consumer"},
	{&stepEnd, "if r.open == s.token then r.open, r.mode = '.', '.' end", ""},
	{&stepEnd, "r.state, r.binds = 'done'", "r.state, r.binds = '.'"},
	{&stepEnd, "rarely().uncrash(r, s)", ""},
	{&stepFail, "call('HINCRBY', q.tombstones, 'count', 1)", "call('HINCRBY', q.tombstones, 'count', 2)"},
	{&stepFail, "set = q.dead end", "set = q.index end"},
	{&stepFail, "format('%d', now + wait)", "r.due"},
}

// TestModelFindsFaults: a fault in either text of a step, the rule or the script, fails TestModel.
func TestModelFindsFaults(t *testing.T) {
	servertest.Long(t)
	quickly(t)
	var runs int64
	fails := func(t *testing.T, all []store) bool {
		t.Helper()
		found := &verdict{T: t}
		rapid.Check(found, func(t *rapid.T) {
			runs++
			w := newWorld(all, runs)
			t.Repeat(w.actions())
		})
		return found.failed
	}
	for _, fault := range []string{"START loses the fence", "START opens an isolated attempt as shared",
		"START takes a redelivery for a first one", "START ignores the age", "FAIL allows one attempt more",
		"FAIL forgets the wait",
		"FAIL ignores the least limit", "FAIL never holds the queue", "END forgets the success"} {
		t.Run(fault, func(t *testing.T) {
			m := memoryUnderTest()
			m.attempts = faultyRules{m.Memory, fault}
			if !fails(t, []store{m, miniredisUnderTest(t)}) {
				t.Error("TestModel passes")
			}
		})
	}
	for i, fault := range faultsOfScripts {
		t.Run(fmt.Sprint(i, " ", fault.was), func(t *testing.T) {
			sound := *fault.of
			defer func() { *fault.of = sound }()
			source := strings.Replace(sound.source, fault.was, fault.now, 1)
			if source == sound.source {
				t.Fatal("the script does not have it")
			}
			*fault.of = step{sound.name, source, redis.NewScript(source).Hash()}
			if !fails(t, []store{memoryUnderTest(), miniredisUnderTest(t)}) {
				t.Error("TestModel passes")
			}
		})
	}
}

// quickly makes rapid report the first difference as it is.
func quickly(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"rapid.shrinktime": "1ns", "rapid.nofailfile": "true",
		"rapid.checks": "3000"} {
		was := flags.Lookup(name).Value.String()
		need(t, flags.Set(name, value))
		t.Cleanup(func() { _ = flags.Set(name, was) })
	}
}

// verdict is a test that may fail.
type verdict struct {
	*testing.T
	failed bool
}

func (v *verdict) Logf(string, ...any)   {}
func (v *verdict) Log(...any)            {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }
func (v *verdict) Error(...any)          { v.failed = true }
func (v *verdict) Fatalf(string, ...any) { v.failed = true }
func (v *verdict) Fatal(...any)          { v.failed = true }
func (v *verdict) FailNow()              { v.failed = true }
func (v *verdict) Fail()                 { v.failed = true }
func (v *verdict) Failed() bool          { return v.failed }
