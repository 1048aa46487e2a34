package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// kind is how an order of the demo behaves.
type kind string

const (
	plain     kind = "plain"     // is handled the first time
	flaky     kind = "flaky"     // fails twice
	poisonous kind = "poisonous" // always fails
	deadly    kind = "deadly"    // kills the process that handles it, until it is found out
)

// demoRetries is MaxRetries in the demo.
const demoRetries = 3

// demoKills is how many processes the deadly order kills. The first leaves no trace, as a first delivery does not ask the store;
// the second leaves an open attempt, which makes the order a suspect; in the third it runs isolated, so that crash is its own.
const demoKills = 3

// runs is how often the handler of such an order has to run.
func (k kind) runs() int {
	switch k {
	case flaky, deadly:
		return map[kind]int{flaky: 3, deadly: demoKills + 1}[k]
	case poisonous:
		return demoRetries + 1
	default:
		return 1
	}
}

// order is one message of the demo; its ID is the MessageId.
type order struct {
	ID   string `json:"order"`
	Kind kind   `json:"kind"`
}

// demoOrders are twenty, with the three that make trouble among them.
func demoOrders() []order {
	special := map[int]kind{4: flaky, 7: poisonous, 12: deadly}
	orders := make([]order, 20)
	for i := range orders {
		k, ok := special[i+1]
		if !ok {
			k = plain
		}
		orders[i] = order{ID: fmt.Sprintf("order-%02d", i+1), Kind: k}
	}
	return orders
}

// shop handles orders, and enters each run in the ledger before anything else happens.
type shop struct {
	ledger *ledger
	die    func()
}

// work is how long an order takes. It also lets the settlements of earlier ones reach the broker before a process dies, so
// that these are not handled a second time.
const work = 100 * time.Millisecond

func (s *shop) handle(ctx context.Context, d amqp.Delivery) error {
	var o order
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return consumer.Reject(err)
	}
	n, err := s.ledger.enter(entryRun, o.ID)
	if err != nil {
		return err
	}
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case o.Kind == flaky && n <= 2:
		return errors.New("the card service does not answer")
	case o.Kind == poisonous:
		return errors.New("no such product")
	case o.Kind == deadly && n <= demoKills:
		s.die()
	}
	_, err = s.ledger.enter(entryDone, o.ID)
	return err
}

// dieNow ends this process as the kernel would for want of memory.
func dieNow() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // until it has happened
}
