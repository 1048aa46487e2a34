package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Alarm is a resource that a node has too little of. Meanwhile the whole cluster blocks connections that publish.
type Alarm struct {
	Node     string `json:"node"`
	Resource string `json:"resource"` // "memory" or "disk"
}

// Alarms returns the alarms of all nodes. It asks the health check, because GET /api/nodes needs the tag monitoring
// and shows an alarm up to 5 s late.
func (c *API) Alarms(ctx context.Context) ([]Alarm, error) {
	var on alarmsError
	var none struct{}
	if err := c.get(ctx, &none, "", "health", "checks", "alarms"); !errors.As(err, &on) {
		return nil, err
	}
	for i := range on {
		on[i].Resource = strings.TrimSuffix(on[i].Resource, " space") // RabbitMQ 3.10 and 4.3 say "disk space" and "disk"
	}
	return on, nil
}

// alarmsError is a health check that failed, with the alarms that are on.
type alarmsError []Alarm

func (e alarmsError) Error() string { return fmt.Sprintf("alarms are on: %v", []Alarm(e)) }
