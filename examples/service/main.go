// Command service consumes the queue orders until SIGTERM or SIGINT, and serves /ready and Prometheus
// /metrics at the address LISTEN, such as :8080.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/plugin/promstrikes"
	"github.com/strikesmq/strikes/topology"
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
	dial := consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	if err := declare(ctx, dial); err != nil {
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counts.Close()) }()

	registry := prometheus.NewRegistry()
	metrics, err := promstrikes.New(registry)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	orders := consumer.Consumer{
		Queue: "orders", Handler: book, Counter: counts,
		Observer: metrics, Consuming: ready.Store, Logger: slog.Default(),
	}
	server := &http.Server{Addr: os.Getenv("LISTEN"), Handler: pages(registry, &ready), ReadHeaderTimeout: 5 * time.Second}
	serving := make(chan error, 1)
	go func() { serving <- server.ListenAndServe() }()

	fmt.Println("waiting for messages in the queue orders")
	err = orders.Run(ctx, dial) // on SIGTERM it waits for the handlers that run, and for their acks
	return errors.Join(err, server.Close(), ignoreClosed(<-serving))
}

func declare(ctx context.Context, dial func(context.Context) (*amqp.Connection, error)) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return topology.Declare(ctx, conn, topology.Spec{Queue: "orders"})
}

// pages serves /metrics, and /ready, which is 200 while the broker sends messages to this process.
func pages(registry *prometheus.Registry, ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
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
