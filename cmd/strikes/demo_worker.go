package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

const (
	demoRetries = 3

	// demoKills is how many processes the deadly order kills. The first leaves no trace, as a first delivery sends the
	// store nothing. The second leaves an open attempt, which makes the order a suspect. In the third it runs isolated,
	// so that crash is counted.
	demoKills = 3

	// demoRestarts of one consumer are enough: the deadly order kills fewer, and more are a sign that nothing works.
	demoRestarts = demoKills + 2
)

// The kinds of orders.
const (
	plain     = "plain"     // succeeds at the first attempt
	flaky     = "flaky"     // fails twice
	poisonous = "poisonous" // always fails
	deadly    = "deadly"    // kills the first processes that handle it
)

// order is one message; its ID is the MessageId.
type order struct {
	ID   string `json:"order"`
	Kind string `json:"kind"`
}

// demoOrders are twenty, three of them troublesome.
func demoOrders() []order {
	all := make([]order, 20)
	for i := range all {
		all[i] = order{ID: fmt.Sprintf("order-%02d", i+1), Kind: plain}
	}
	all[3].Kind, all[6].Kind, all[11].Kind = flaky, poisonous, deadly
	return all
}

// demoHandler is the CMD of the consumers, a program for sh. It enters each attempt in the ledger before anything else
// happens. The deadly order kills in demoKills attempts.
const demoHandler = `
echo "attempt $STRIKES_MESSAGE_ID" >>"$LEDGER"
attempts=$(grep -cx "attempt $STRIKES_MESSAGE_ID" "$LEDGER")
sleep 0.1
case $attempts-$(cat) in
[12]-*flaky*) echo "the card service does not answer" >&2; exit 1;;
*poisonous*) echo "no such product" >&2; exit 1;;
[123]-*deadly*) kill -9 $PPID; sleep 1;; # the consumer, as the kernel would for lack of memory
esac
echo "done $STRIKES_MESSAGE_ID" >>"$LEDGER"
`

// watch runs two consumers until no order is left, and tells the story. The proof does not rely on their reports.
func (d *demo) watch(ctx context.Context) error {
	running, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	news := make(chan string, 100)
	var members sync.WaitGroup
	for number := range 2 {
		members.Go(func() { // starts the consumer again when it dies
			who := fmt.Sprintf("consumer %d  ", number+1)
			for range demoRestarts + 1 {
				err := d.consume(running, who, news)
				if err == nil || running.Err() != nil {
					return
				}
				news <- who + "died (" + printable.Text(err.Error(), "") + "); its messages return to the queue, and it is " +
					"started again"
			}
		})
	}
	go func() { members.Wait(); close(news) }()
	for line := range news {
		d.say("%s", line)
	}
	return ctx.Err()
}

// consume runs one consumer, a process of this binary, until no order is left. When ctx is done the process is asked to
// stop, and killed if it does not.
func (d *demo) consume(ctx context.Context, who string, news chan<- string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "consume", d.queue, "--json", "--max-retries", strconv.Itoa(demoRetries),
		"--prefetch", "1", // so a process that dies has settled every earlier order, and none of those is handled again
		"--drain-timeout", "2s", "--exit-when-idle", "1s", "--", "sh", "-c", demoHandler)
	cmd.Args[0] = "strikes"
	settings := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STRIKES_") })
	// in the environment: every user can read a command line
	cmd.Env = append(settings, "STRIKES_AMQP_URL="+d.amqpURL, "STRIKES_STORE_URL="+d.storeURL,
		"STRIKES_PREFIX="+d.queue, "LEDGER="+string(d.ledger))
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	ownGroup(cmd)
	var last tail
	cmd.Stderr = &last
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	news <- fmt.Sprintf("%sstarted, pid %d", who, cmd.Process.Pid)
	decisions := json.NewDecoder(stdout)
	for {
		var made decision
		if err := decisions.Decode(&made); err != nil { // its output has ended
			break
		}
		news <- who + made.String()
	}
	err = cmd.Wait()
	if err != nil && cmd.ProcessState.Exited() { // if it was killed, its last output is a handler's
		err = fmt.Errorf("%w: %s", err, last.String())
	}
	return err
}
