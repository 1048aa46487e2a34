// Command service consumes the queue orders until SIGTERM or SIGINT, and serves Prometheus metrics on LISTEN (:8080).
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("service", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close()) }()

	registry := prometheus.NewRegistry()
	orders := consumer.Consumer{
		Queue: "orders", Handler: book, Counter: counts,
		Observer: newMetrics(registry), Logger: slog.Default(),
	}
	server := &http.Server{
		Addr: os.Getenv("LISTEN"), ReadHeaderTimeout: 5 * time.Second,
		Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	serving := make(chan error, 1)
	go func() { serving <- server.ListenAndServe() }()

	err = orders.Run(ctx, consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{}))
	return errors.Join(err, server.Close(), ignoreClosed(<-serving))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// book handles one order. An error is counted as a failed attempt.
func book(_ context.Context, d amqp.Delivery) error {
	fmt.Printf("booked %s\n", d.Body)
	return nil
}
