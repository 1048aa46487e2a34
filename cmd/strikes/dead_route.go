package main

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

const routeMeaning = "Without --dead-letter-queue the command finds the queue in which the dead letters land, by QUEUE's arguments, policies and\n" +
	"bindings. The management API shows these. If it does not, the command assumes QUEUE.dlq, and stderr says so. If dead\n" +
	"letters land in several queues, the error names them.\n"

// deadLetterQueue is the queue in which the dead letters of another land.
type deadLetterQueue struct {
	name  string
	guess string // why the name is a guess; empty: it is not
}

// findDeadLetterQueue follows the dead-letter route of need.Queue.
func findDeadLetterQueue(ctx context.Context, conn *amqp.Connection, need inspect.Need) (deadLetterQueue, error) {
	landing, err := doctor.FindDeadLetters(ctx, conn, need)
	if err != nil {
		return deadLetterQueue{}, err
	}
	return chooseLanding(need.Queue, landing)
}

// chooseLanding takes the queue in which dead letters stay: after a rejection, else after a delay, else the delay queue.
func chooseLanding(queue string, l doctor.Landing) (deadLetterQueue, error) {
	var ranks [3][]doctor.LandingQueue
	for _, q := range l.Queues {
		switch {
		case q.Delay && !q.Behind:
			ranks[2] = append(ranks[2], q)
		case !q.Delay && q.Behind:
			ranks[1] = append(ranks[1], q)
		case !q.Delay:
			ranks[0] = append(ranks[0], q)
		}
	}
	for _, queues := range ranks {
		switch {
		case len(queues) == 1:
			return deadLetterQueue{name: queues[0].Name}, nil
		case len(queues) > 1:
			return deadLetterQueue{}, cli.Misusef("the dead letters of queue %q land in several queues: %s; choose one with --dead-letter-queue",
				queue, strings.Join(landingNames(queues), ", "))
		}
	}
	why := l.Unseen
	if l.Broken != "" {
		why = l.Broken
	}
	return deadLetterQueue{name: queue + ".dlq", guess: why}, nil
}

// guessed says that the name is a guess; empty if it is not.
func (q deadLetterQueue) guessed(of string) string {
	if q.guess == "" {
		return ""
	}
	return fmt.Sprintf("the dead-letter queue of %s is assumed to be %s (--dead-letter-queue names another): %s", term.Shown(of), term.Shown(q.name), q.guess)
}

func landingNames(queues []doctor.LandingQueue) []string {
	var names []string
	for _, q := range queues {
		name := term.Shown(q.Name)
		if q.Depends {
			name += " (some of them)"
		}
		names = append(names, name)
	}
	return names
}
