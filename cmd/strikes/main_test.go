package main

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// TestMain also makes the test binary act as strikes, for the scripts and for commands that start themselves.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // with the race detector on, every process that exits 0 would sleep for a second
		_ = os.Setenv("GORACE", quickExit)
	}
	testscript.Main(suite{m}, map[string]func(){"strikes": main})
}

const quickExit = "atexit_sleep_ms=0"

// suite stops the servers after the tests, and finds leaked goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int { return servertest.Run(s.m) }

// The servers of those tests that need some: AMQP_URL and REDIS_URL where given, else private ones.
var (
	brokerURL = servertest.BrokerURL
	storeURL  = servertest.StoreURL

	managementURL = servertest.ManagementURL
)

// output is the output of commands, from several goroutines.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
