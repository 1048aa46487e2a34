package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
)

// DeadLetterQueue is the queue in which the dead letters of another land.
type DeadLetterQueue struct {
	Name    string
	Assumed error // why the name is a guess; nil: it is not
	Away    bool  // it does not answer, as broker.Queue.Away says

	several []Landing // with an *AmbiguousError: there is no Name
}

// Landing is one of several queues in which dead letters land.
type Landing struct {
	Queue string `json:"queue"`
	Holds *int   `json:"holds,omitempty"` // ready; nil: not seen
}

// Guess says that Name is a guess for the dead-letter queue of a queue, and why. It is not escaped.
func (d DeadLetterQueue) Guess(queue string) string {
	return fmt.Sprintf("the dead-letter queue of %s is assumed to be %s (--dead-letter-queue names another): %v",
		printable.Name(queue), printable.Name(d.Name), d.Assumed)
}

// AmbiguousError says that the dead letters of a queue land in several queues.
type AmbiguousError struct {
	Queue  string
	Queues []inspect.Landing
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, q := range e.Queues {
		name := fmt.Sprintf("%q", q.Name)
		if q.Depends {
			name += " (some of them)"
		}
		names = append(names, name)
	}
	return fmt.Sprintf("the dead letters of queue %q land in several queues: %s", e.Queue, strings.Join(names, ", "))
}

// FindDeadLetterQueue follows the dead-letter route of need.Queue. It returns an *AmbiguousError if that leads to
// several queues, and assumes QUEUE.dlq if the route cannot be seen, or is broken.
func FindDeadLetterQueue(ctx context.Context, conn *amqp.Connection, need inspect.Need) (DeadLetterQueue, error) {
	landings, why, err := doctor.FindDeadLetters(ctx, conn, need)
	if err != nil {
		return DeadLetterQueue{}, err
	}
	return chooseLanding(need.Queue, landings, why)
}

// Sharing returns the queues, other than need.Queue and its partitions, whose dead letters land in the same queue. It
// needs the management API. A delay on the dead-letter route of need.Queue is not among them.
func Sharing(ctx context.Context, conn *amqp.Connection, need inspect.Need, deadLetterQueue string) ([]string, error) {
	known, err := doctor.List(ctx, conn, need)
	return sharing(known, need.Queue, deadLetterQueue), err
}

func sharing(known inspect.Listing, queue, deadLetterQueue string) (others []string) {
	own := append([]string{queue}, known.Partitions[queue]...)
	for _, name := range slices.Clone(own) {
		for _, l := range known.Routes[name].Landings {
			if l.Delay {
				own = append(own, l.Name)
			}
		}
	}
	lands := func(l inspect.Landing) bool { return l.Name == deadLetterQueue }
	for name, route := range known.Routes {
		if !slices.Contains(own, name) && !broker.IsDelayQueue(name) && slices.ContainsFunc(route.Landings, lands) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}

// chooseLanding takes the queue in which dead letters stay: after a rejection, else after a delay, else the delay
// queue. If there is none, it assumes QUEUE.dlq, and why is the reason.
func chooseLanding(queue string, all []inspect.Landing, why string) (DeadLetterQueue, error) {
	var ranks [3][]inspect.Landing
	for _, q := range all {
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
			return DeadLetterQueue{Name: queues[0].Name, Away: queues[0].Away}, nil
		case len(queues) > 1:
			var at DeadLetterQueue
			for _, q := range queues {
				at.several = append(at.several, Landing{Queue: q.Name})
			}
			return at, &AmbiguousError{queue, queues}
		}
	}
	return DeadLetterQueue{Name: queue + ".dlq", Assumed: errors.New(why)}, nil
}
