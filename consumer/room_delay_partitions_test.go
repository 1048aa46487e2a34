package consumer

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestDelayRefusedWithPartitions(t *testing.T) {
	err := partitioned(func(c *Consumer) { c.DelayAbove = time.Minute }).validate(&amqp.Connection{})
	var refused *FieldError
	if !errors.As(err, &refused) || refused.Field != "DelayAbove" {
		t.Errorf("got %v, want a refusal of DelayAbove", err)
	}
}
