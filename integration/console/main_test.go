// Package console tests the console in a real browser, on real servers.
package console

import (
	"os"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { os.Exit(servertest.Run(tests{m})) }

// tests close the browser before the servers end and goroutines are counted.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer func() { chromium.close() }() // which start sets
	return m.M.Run()
}
