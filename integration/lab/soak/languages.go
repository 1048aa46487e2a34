package soak

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/faults"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/proxy"
)

// inGo is the language of runWorker. A worker in any other language does the same. It reads a workerSpec from the
// environment variable STRIKES_WORKER, consumes, and behaves as the bodies of the messages ask. It appends each event
// to the history before it goes on. It ends when its standard input ends, and stops at SIGTERM.
const inGo = "go"

// programOf returns the command of a worker in a language, from the root of the repository; nil: this program is it.
func programOf(language string) []string {
	switch language {
	case "python":
		return []string{cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3"), "clients/python/tests/soak_worker.py"}
	case "node":
		return []string{"node", "clients/node/test/soak-worker.js"}
	}
	return nil
}

// seat gives the fleet a seat for each process, in the languages in turn.
func (k *soak) seat(ctx context.Context) error {
	spec := k.spec()
	var treat func(words []string) proxy.Treatment // of requests to the store; nil: the proxies pass on bytes
	if f, is := storeFaults[k.cfg.storeFaults]; is {
		treat = f.odds.Treat(k.cfg.seed)
	}
	for i := range k.cfg.processes {
		language := k.cfg.languages[i%len(k.cfg.languages)]
		s, err := k.fleet.NewSeat(ctx, k.broker, k.store, treat)
		if err != nil {
			return err
		}
		s.Exited = func(number int, err error) {
			k.log.Forward(audit.Event{Kind: audit.Exited, Process: number, Err: text(err)})
		}
		if language == inHTTP {
			if err := k.push(ctx, s, spec); err != nil {
				return err
			}
			continue
		}
		s.Command = func(number int) (*exec.Cmd, io.Closer, error) {
			of := spec
			of.Number, of.AMQP, of.Redis = number, s.AMQP, s.Redis
			return fleet.Command(of, programOf(language)...)
		}
	}
	return nil
}

// spec is the configuration that all processes share.
func (k *soak) spec() workerSpec {
	cfg := k.cfg
	spec := workerSpec{
		Queue: queue, History: k.history, Concurrency: cfg.concurrency, Prefetch: cfg.prefetch, MaxRetries: maxRetries,
		HandlerTimeout: cfg.handlerTimeout, ConsumerTimeout: consumerTimeout, Heartbeat: faults.Heartbeat,
		FirstBackoff: firstBackoff, MostBackoff: mostBackoff, Ordered: cfg.ordered, Lanes: cfg.lanes,
		Requeue: cfg.requeue,
	}
	if cfg.outage > 0 { // all else as by default
		spec.Breaker, spec.Calls = outageBreaker, k.dependency.URL
		spec.FirstBackoff, spec.MostBackoff, spec.ConsumerTimeout = 0, 0, 0
	}
	if cfg.ordered {
		spec.FirstBackoff, spec.MostBackoff = time.Millisecond, 5*time.Millisecond
	}
	return spec
}

// possible are the kinds of faults that the servers allow and the flags name.
func (k *soak) possible() ([]faults.Kind, error) {
	if k.cfg.outage > 0 {
		return []faults.Kind{faults.DependencyAway.Lasting(k.cfg.outage)}, nil
	}
	all := faults.Possible(k.broker)
	if k.store.Database != nil {
		all = append(all, faults.StoreTerminate)
	}
	if slices.Contains(k.cfg.languages, inHTTP) {
		all = append(all, faults.Kind{Name: "endpoint-kill",
			Do: func(context.Context, faults.Trouble) error {
				for _, p := range k.pushers {
					_ = p.endpoint.Seats[0].Signal(syscall.SIGKILL) // it may have just ended
				}
				return nil
			}})
	}
	if k.cfg.only == "" {
		return all, nil
	}
	return faults.Named(all, strings.Split(k.cfg.only, ",")...)
}
