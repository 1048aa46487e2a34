package counter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// Most programs only dial a Counter and pass it to their consumers. They may check the store before.
func ExampleCounter_Check() {
	counts, err := counter.Dial("redis://:secret@localhost:6379/0", &counter.Options{TTL: 14 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer counts.Close()

	warnings, err := counts.Check(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range warnings {
		log.Print(w)
	}
}

// A message fails three times. Memory is the same for tests, without a server.
func ExampleMemory() {
	ctx := context.Background()
	counts := counter.NewMemory(nil)
	order := counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}
	for _, token := range []string{"attempt-1", "attempt-2", "attempt-3"} {
		attempt := counter.Attempt{Message: order, Token: token, First: token == "attempt-1"}
		reply, err := counts.Fail(ctx, attempt, counter.Failure{Limit: 3, Reason: "no such customer"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(reply.Counted(), reply.Code)
	}
	// Output:
	// 1 REQUEUE
	// 2 REQUEUE
	// 3 EXHAUSTED
}

// An operator's tool gives a message a limit of its own, and lists the messages of a queue that fail.
func ExampleAdmin() {
	ctx := context.Background()
	counts, stop := counted(ctx, "order-17")
	defer stop()
	admin := counts.Admin()

	why := counter.Note{By: "jo@desk", Why: "the supplier is down until noon"}
	order := counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}
	if err := admin.LimitMessage(ctx, order, 13, why); err != nil {
		log.Fatal(err)
	}
	for record, err := range admin.List(ctx, "/", "orders") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q %s: %d of %d attempts, %q\n", record.ID, record.Cause, record.Counted(), record.InForce(nil),
			record.Reason)
	}
	// Output: "order-17" failed: 1 of 13 attempts, "no such customer"
}

// An operator gives the whole queue another limit, in force at the next step.
func ExampleAdmin_SetLimit() {
	ctx := context.Background()
	counts, stop := counted(ctx, "order-17")
	defer stop()

	why := counter.Note{By: "jo@desk", Why: "the supplier is down until noon"}
	if err := counts.Admin().SetLimit(ctx, "/", "orders", counter.Override{MaxRetries: new(5), Note: why}); err != nil {
		log.Fatal(err)
	}
	order := counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}
	reply, err := counts.Start(ctx, counter.Attempt{Message: order, Token: "attempt-2"}, rules.ModeShared, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Code, "with a limit of", reply.Limit)
	// Output: RUN with a limit of 6
}

// counted returns a Counter on an embedded store, with one failure of each id.
func counted(ctx context.Context, ids ...string) (counts *counter.Counter, stop func()) {
	store, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	counts, err = counter.Dial("redis://"+store.Addr(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range ids {
		first := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "attempt-1",
			First: true}
		if _, err := counts.Fail(ctx, first, counter.Failure{Limit: 3, Reason: "no such customer"}); err != nil {
			log.Fatal(err)
		}
	}
	return counts, func() {
		if err := counts.Close(); err != nil {
			log.Print(err)
		}
		store.Close()
	}
}
