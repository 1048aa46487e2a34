package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// leftovers are queues and exchanges on the shared broker, of tests that have ended.
//
// On RabbitMQ 3.10 and 4.0 a quorum queue that is deleted within moments of its declaration can end all at-least-once
// dead lettering of its node. Each later declaration of such a queue then fails with 541. So no test deletes its
// queues when it ends. Hundreds of queues slow each list of the management API. So a later test deletes them, once 20
// are a minute old.
var leftovers struct {
	sync.Mutex
	names  []leftover // in the order in which their tests ended
	vhosts []string
}

type leftover struct {
	name  string
	ended time.Time // its test
}

// DeleteLater deletes the queues NAME and NAME.dlq and the exchanges NAME, NAME.dlx and NAME.events from the default
// virtual host of the shared broker, if they exist. A later test does that, a minute after this one at least, or Run.
func DeleteLater(t testing.TB, names ...string) {
	t.Cleanup(func() {
		leftovers.Lock()
		defer leftovers.Unlock()
		now := time.Now()
		old := sort.Search(len(leftovers.names), func(i int) bool { return now.Sub(leftovers.names[i].ended) < time.Minute })
		if old >= 20 {
			if err := deleteNames(BrokerURL(t), leftovers.names[:old]); err != nil {
				t.Error(err)
			} else {
				leftovers.names = leftovers.names[old:]
			}
		}
		for _, name := range names {
			leftovers.names = append(leftovers.names, leftover{name, now})
		}
	})
}

// VirtualHost creates a virtual host of the shared broker for this test alone, and returns its URL. Run deletes it
// with its queues.
func VirtualHost(t testing.TB) (amqpURL string) {
	t.Helper()
	broker, err := url.Parse(BrokerURL(t))
	if err != nil {
		t.Fatal(err)
	}
	name, management := "test-"+uuid.NewString(), ManagementURL(t)
	at := management + "/api/vhosts/" + name
	Administer(t, http.MethodPut, at, "{}")
	leftovers.Lock()
	leftovers.vhosts = append(leftovers.vhosts, at)
	leftovers.Unlock()
	all := `{"configure":".*","write":".*","read":".*"}`
	Administer(t, http.MethodPut, management+"/api/permissions/"+name+"/"+broker.User.Username(), all)
	broker.Path = "/" + name
	return broker.String()
}

// Administer sends a request to a management API. The test fails if it is refused.
func Administer(t testing.TB, method, at, body string) {
	t.Helper()
	if err := administer(method, at, body); err != nil {
		t.Fatal(err)
	}
}

func administer(method, at, body string) error {
	req, err := http.NewRequestWithContext(context.Background(), method, at, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Close = true // no goroutine of an idle connection stays behind
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		text, err := io.ReadAll(res.Body)
		return errors.Join(fmt.Errorf("%s %s: %s: %s", method, req.URL.Redacted(), res.Status, text), err)
	}
	return nil
}

// deleteLeftovers deletes in the order in which the tests ended, so that the youngest queue is deleted last.
func deleteLeftovers() error {
	broker := os.Getenv("AMQP_URL")
	if broker == "" || len(leftovers.names)+len(leftovers.vhosts) == 0 {
		return nil // a private broker ends with the tests
	}
	defer func() { leftovers.names, leftovers.vhosts = nil, nil }()
	var errs []error
	for _, at := range leftovers.vhosts {
		errs = append(errs, administer(http.MethodDelete, at, ""))
	}
	return errors.Join(append(errs, deleteNames(broker, leftovers.names))...)
}

func deleteNames(broker string, all []leftover) error {
	conn, err := amqp.Dial(broker)
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	for _, l := range all {
		for _, queue := range []string{l.name, l.name + ".dlq"} {
			if err == nil {
				_, err = ch.QueueDelete(queue, false, false, false)
			}
		}
		for _, exchange := range []string{l.name, l.name + ".dlx", l.name + ".events"} {
			if err == nil {
				err = ch.ExchangeDelete(exchange, false, false)
			}
		}
	}
	return errors.Join(err, conn.Close())
}
