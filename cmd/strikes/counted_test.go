package main

import (
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servertest"
)

// failOnce counts a failure of a message, whose queue there need not be.
func failOnce(t *testing.T, queue, id string) {
	t.Helper()
	failOnceAt(t, patientURL(t), queue, id)
}

func failOnceAt(t *testing.T, url, queue, id string) {
	t.Helper()
	store, err := counter.Dial(servertest.Patient(t, url), &counter.Options{Prefix: queue})
	need(t, err)
	defer store.Close()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: id}, Token: "a", Consumer: "test"}
	if _, err := store.Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "boom"}); err != nil {
		t.Fatal(err)
	}
}
