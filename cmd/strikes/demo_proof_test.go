package main

import (
	"strings"
	"testing"
	"time"
)

// goodEnds are the ends of the orders in a demo that went well.
func goodEnds() map[string]string {
	ends := map[string]string{}
	for _, o := range demoOrders() {
		ends[o.ID] = right[o.Kind]
	}
	return ends
}

func TestVerdictOfGoodEvidence(t *testing.T) {
	wrong := judge(demoOrders(), goodEnds(), 0)
	var out strings.Builder
	if printProof(&out, demoOrders(), wrong, time.Second); len(wrong) > 0 || strings.Count(out.String(), "  ok  ") != 4 ||
		!strings.Contains(out.String(), "20 orders: 19 handled, 1 dead-lettered, none lost.") ||
		!strings.Contains(out.String(), "order-12: 4 attempts (2 not counted), handled 1 time; the store counts 0 "+
			"failures, 1 crash, done") {
		t.Errorf("wrong: %q\n%s", wrong, &out)
	}
}

func TestVerdictFindsEachFault(t *testing.T) {
	for id, spoilt := range map[string]string{
		"order-01": "", "order-07": strings.TrimSuffix(right[poisonous], "; RabbitMQ has it as rejected"),
		"order-08": right[plain] + "; RabbitMQ has it as rejected", "order-19": "2 attempts, handled 1 time",
		"order-13": "1 attempt, handled 2 times", "order-99": "1 attempt, handled 0 times",
		"order-12": "4 attempts, handled 1 time", "1 order left": "",
	} {
		ends, left := goodEnds(), 0
		switch ends[id] = spoilt; id {
		case "order-01":
			delete(ends, id)
		case "1 order left":
			delete(ends, id)
			left = 1
		}
		wrong := judge(demoOrders(), ends, left)
		if len(wrong) != 1 || !strings.HasPrefix(wrong[0], id) {
			t.Errorf("wrong: %q, want one about %q", wrong, id)
		}
		var out strings.Builder
		printProof(&out, demoOrders(), wrong, time.Second)
		if !strings.Contains(out.String(), "WRONG "+id) || strings.Contains(out.String(), "none lost") {
			t.Errorf("printed:\n%s", &out)
		}
	}
}
