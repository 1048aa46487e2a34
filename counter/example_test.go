package counter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strikesmq/strikes/counter"
)

func ExampleDial() {
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

// A message that fails three times, as a consumer sees it.
func ExampleMemory() {
	ctx := context.Background()
	counts := counter.NewMemory(nil)
	order := counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}
	for _, token := range []string{"run-1", "run-2", "run-3"} {
		attempt := counter.Attempt{Message: order, Token: token, First: token == "run-1"}
		answer, err := counts.Fail(ctx, attempt, counter.Failure{Limit: 3, Reason: "no such customer"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Counted(), answer.Verdict)
	}
	// Output:
	// 1 REQUEUE
	// 2 REQUEUE
	// 3 EXHAUSTED
}

func ExampleAdmin_List() {
	ctx := context.Background()
	counts, stop := counted(ctx, "order-17")
	defer stop()

	for record, err := range counts.Admin().List(ctx, "/", "orders") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q: %d failures, last %q\n", record.ID, record.Failures, record.Reason)
	}
	// Output: "order-17": 1 failures, last "no such customer"
}

func ExampleAdmin_Forget() {
	ctx := context.Background()
	counts, stop := counted(ctx, "order-17")
	defer stop()

	n, err := counts.Admin().Forget(ctx, "/", "orders", "order-17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("forgot", n)
	// Output: forgot 1
}

// counted returns a Counter on an embedded store, with one failure of id.
func counted(ctx context.Context, id string) (counts *counter.Counter, stop func()) {
	store, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	counts, err = counter.Dial("redis://"+store.Addr(), nil)
	if err != nil {
		log.Fatal(err)
	}
	first := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "run-1", First: true}
	if _, err := counts.Fail(ctx, first, counter.Failure{Limit: 3, Reason: "no such customer"}); err != nil {
		log.Fatal(err)
	}
	return counts, func() {
		if err := counts.Close(); err != nil {
			log.Print(err)
		}
		store.Close()
	}
}

// An operator gives one message more tries, and the whole queue another limit: both are in force at the next step.
func ExampleAdmin_Grant() {
	ctx := context.Background()
	counts, stop := counted(ctx, "order-17")
	defer stop()

	order := counter.Message{VHost: "/", Queue: "orders", ID: "order-17"}
	why := counter.Note{By: "jo@desk", Why: "the supplier is down until noon"}
	if err := counts.Admin().SetLimit(ctx, "/", "orders", counter.Override{MaxRetries: new(5), Note: why}); err != nil {
		log.Fatal(err)
	}
	if err := counts.Admin().Grant(ctx, order, counter.Grant{Attempts: 10, Note: why}); err != nil {
		log.Fatal(err)
	}
	answer, err := counts.Start(ctx, counter.Attempt{Message: order, Token: "run-2"}, counter.ModeShared, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Verdict, "with a limit of", answer.Limit)
	// Output: RUN with a limit of 16
}
