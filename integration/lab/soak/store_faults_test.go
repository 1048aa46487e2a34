package soak

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proxy"
)

// call spells out a script call about some messages, one step each.
func call(args ...[]string) []string {
	words := []string{"evalsha", "0123", fmt.Sprint(4 + len(args)), "index", "limit", "tombstones", "dead"}
	for range args {
		words = append(words, "record")
	}
	return slices.Concat(append(words, "60000"), slices.Concat(args...))
}

func TestDirectedFaultsFindTheirStep(t *testing.T) {
	step := func(id string, more ...string) []string {
		return append([]string{"p-1", id, "", "consumer", "4", "-1"}, more...)
	}
	other := step("m000002", "isolated")
	for _, tc := range []struct {
		fault string
		words []string
		want  proxy.Part
	}{
		{"start", call(step(victim, "isolated")), proxy.Reply},
		{"start", call(other, step(victim, "isolated")), proxy.Reply},
		{"start", call(other, step(victim, "shared")), 0},
		{"start", call(step(victim, "1", "600000")), 0},
		{"end", call(step(victim)), 0},
		{"end", call(step("m000002", "0", "600000"), step(victim, "1", "600000")), proxy.Request},
		{"end", call(step(victim, "isolated")), 0},
		{"end", call(other), 0},
		{"end", []string{"hello", "2"}, 0},
		{"end", []string{"evalsha", "0123", "x"}, 0},
		{"end", []string{"evalsha", "0123", "9", "index"}, 0},
	} {
		fault, ok := findStoreFault(tc.fault)
		if !ok {
			t.Fatalf("no store fault %q", tc.fault)
		}
		treat := fault.treat(1, 2)
		for i := range 3 {
			want := proxy.Treatment{Lose: tc.want}
			if i == 2 { // it is lost so often, and no more
				want = proxy.Treatment{}
			}
			if got := treat(tc.words); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, time %d, %q: got %+v, want %+v", tc.fault, i+1, tc.words, got, want)
			}
		}
	}
}

func TestOddsAreForSteps(t *testing.T) {
	sure := storeFault{odds: proxy.Odds{Lose: 1}}
	step := call([]string{"p-1", "m000001", "", "consumer", "4", "-1", "shared"})
	for _, tc := range []struct {
		words []string
		want  proxy.Part
	}{{step, proxy.Reply}, {[]string{"hello", "2"}, 0}} {
		if got := sure.treat(1, 0)(tc.words); got.Lose != tc.want {
			t.Errorf("%q: got %+v, want part %d lost", tc.words, got, tc.want)
		}
	}
}

// TestStepsAreFoundInWhatACounterSends holds the reading of script calls to what package counter really sends.
func TestStepsAreFoundInWhatACounterSends(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer listener.Close()
	go accept(listener)
	seen := make(chan stepArgs, 100)
	p, err := proxy.NewStore(t.Context(), listener.Addr().String(), func(words []string) proxy.Treatment {
		for _, s := range steps(words) {
			seen <- s
		}
		return proxy.Treatment{}
	})
	need(t, err)
	defer p.Close()
	counts, err := counter.Dial("redis://"+p.Addr(), nil)
	need(t, err)
	defer counts.Close()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: victim}, Token: "p-1", Consumer: "test"}
	for name, tc := range map[string]struct {
		take func(context.Context) error
		mode string
	}{
		"start shared": {func(ctx context.Context) error {
			_, err := counts.Start(ctx, a, counter.ModeShared, 4)
			return err
		}, "shared"},
		"start isolated": {func(ctx context.Context) error {
			_, err := counts.Start(ctx, a, counter.ModeIsolated, 4)
			return err
		}, "isolated"},
		"fail": {func(ctx context.Context) error {
			_, err := counts.Fail(ctx, a, counter.Failure{Limit: 4, Reason: "why"})
			return err
		}, ""},
		"end": {func(ctx context.Context) error { return counts.End(ctx, a, true) }, ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_ = tc.take(ctx) // the server refuses everything
		cancel()
		select {
		case s := <-seen:
			if s.id() != victim || s.mode() != tc.mode {
				t.Errorf("%s: read as a step of mode %q about %q", name, s.mode(), s.id())
			}
		default:
			t.Errorf("%s: no step was found", name)
		}
	}
}

// accept refuses every command of every connection.
func accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for in := bufio.NewReader(conn); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "*") {
					fmt.Fprint(conn, "-ERR refused\r\n")
				}
			}
		}()
	}
}

func TestDirectedPlan(t *testing.T) {
	cfg, err := parseFlags([]string{"-store-faults", "start"})
	need(t, err)
	var order []string
	for _, j := range plan(cfg, nil) {
		order = append(order, j.Do)
	}
	if got, want := strings.Join(order, " "), "succeed kill kill kill kill"; got != want || cfg.faults != 0 ||
		cfg.processes != 1 {
		t.Errorf("got %q and %d faults on %d processes, want %q, none, on one", got, cfg.faults, cfg.processes, want)
	}
}
