package counter

import (
	"fmt"
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestLaneBeginsAnew: the document of a blocked lane expires while a store in a database still has the places of the
// lane. The lane that begins then does not find them: no dead letter counts as published.
func TestLaneBeginsAnew(t *testing.T) {
	c := NewMemory(nil).Counter
	of := Queue{"/", "orders"}
	need(t, errOf(c.OwnLanes(t.Context(), of.VHost, of.Name, "", "one")))
	block := func(id string, number int64) {
		t.Helper()
		reply, err := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: of.VHost, Queue: of.Name, ID: id},
			Lane: "a", Act: rules.LaneBlock, Owner: "one", Number: number})
		if err != nil || reply.Code != rules.LaneBlocked {
			t.Fatalf("%s: %+v, %v", id, reply, err)
		}
	}
	var letters []LaneDeadLetter
	for i := range 4 {
		id := fmt.Sprint("old-", i)
		block(id, int64(i+1))
		letters = append(letters, LaneDeadLetter{Message: Message{ID: id}})
	}
	_, docs, err := c.store.Load(t.Context(), of, docLane+hashID("a"))
	need(t, err)
	docs[0].Data, docs[0].Any = "", true
	need(t, errOf(c.store.Save(t.Context(), of, Change{Docs: docs})))

	block("new-0", 5)
	state, err := c.Admin().Lane(t.Context(), of.VHost, of.Name, "a")
	need(t, err)
	letters = append(letters, LaneDeadLetter{Message: Message{ID: "new-0"}})
	plan := state.Plan(letters)
	if len(state.Open) != 1 || state.Messages != 1 || len(plan.Doubles) > 0 || len(plan.Publish) != 1 ||
		letters[plan.Publish[0].Index].ID != "new-0" {
		t.Errorf("the lane has %+v, and the plan %+v; want new-0 published alone, and no double", state, plan)
	}
}
