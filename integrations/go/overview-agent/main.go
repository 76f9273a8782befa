// Command overview-agent decides about the requests of a machine for Developer Overview: for proxies that ask before they pass a request on, and for
// programs that ask as they would ask the Worker. It decides about busy keys by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"developeroverview"
)

const (
	tokenEvery = 5 * time.Second
	// The requests that run when the process ends have this time.
	lastRequests = 10 * time.Second
	// The responses to requests that were decided with the token of before are reported within this time.
	lastReports = 10 * time.Minute
)

// agent is what all listeners share. The verifiers have the order of the listeners, and change with the token.
type agent struct {
	settings settings
	token    string
	base     atomic.Pointer[developeroverview.Verifier]
	serving  []atomic.Pointer[developeroverview.Verifier]
}

func main() {
	flags := flag.NewFlagSet("overview-agent", flag.ExitOnError)
	isCheck := flags.Bool("check", false, "check the settings, and end")
	made, err := settingsOf(flags, os.Args[1:])
	if err == nil {
		err = run(made, *isCheck)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overview-agent:", err)
		os.Exit(1)
	}
}

func run(made settings, isCheck bool) error {
	own := &agent{settings: made, serving: make([]atomic.Pointer[developeroverview.Verifier], len(made.Listeners))}
	token, err := own.readToken()
	if err != nil {
		return err
	}
	options := developeroverview.Options{URL: made.URL, Token: token, OnUnavailable: made.OnUnavailable}
	verifier, err := developeroverview.New(options)
	if err != nil {
		return err
	}
	if err := own.use(verifier, token); err != nil || isCheck {
		return err
	}
	servers := []*http.Server{}
	failed := make(chan error, len(made.Listeners)+1)
	serve := func(address string, handler http.Handler) error {
		listening, err := listen(address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
		servers = append(servers, server)
		go func() { failed <- server.Serve(listening) }()
		return nil
	}
	for index, each := range made.Listeners {
		handler := own.verify(&own.serving[index])
		if each.Serves == "forward" {
			handler = each.forward(&own.serving[index])
		}
		if err := serve(each.Listen, handler); err != nil {
			return err
		}
	}
	if made.Status != "" {
		if err := serve(made.Status, own.status()); err != nil {
			return err
		}
	}
	log.Printf("overview-agent: %d listeners ask %s", len(made.Listeners), made.URL)
	return own.wait(servers, failed)
}

// wait reads the token again and again, and ends when the process is told to.
func (a *agent) wait(servers []*http.Server, failed <-chan error) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	ticker := time.NewTicker(tokenEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-ticker.C:
			a.reload()
		case sent := <-signals:
			if sent == syscall.SIGHUP {
				a.reload()
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), lastRequests)
			defer cancel()
			for _, each := range servers {
				_ = each.Shutdown(ctx)
			}
			a.base.Load().Close()
			return nil
		}
	}
}

func listen(address string) (net.Listener, error) {
	path := strings.TrimPrefix(address, "unix:")
	if path == address {
		return net.Listen("tcp", address)
	}
	// A socket that nobody listens on is left of a process that was killed.
	if connection, err := net.Dial("unix", path); err == nil {
		_ = connection.Close()
	} else if found, err := os.Lstat(path); err == nil && found.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path)
	}
	made, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o660)
	}
	return made, err
}

func (a *agent) readToken() (string, error) {
	if a.settings.TokenFile == "" {
		if token := os.Getenv("OVERVIEW_TOKEN"); token != "" {
			return token, nil
		}
		return "", errors.New("there is no token: say -token-file, or set OVERVIEW_TOKEN")
	}
	body, err := os.ReadFile(a.settings.TokenFile)
	token := strings.TrimSpace(string(body))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", a.settings.TokenFile)
	}
	return token, err
}

// use makes the verifiers of all listeners from one that has the token.
func (a *agent) use(base *developeroverview.Verifier, token string) error {
	made := []*developeroverview.Verifier{}
	for _, each := range a.settings.Listeners {
		verifier, err := base.With(each.apply)
		if err != nil {
			return fmt.Errorf("the listener %s: %w", each.Listen, err)
		}
		made = append(made, verifier)
	}
	for index, each := range made {
		a.serving[index].Store(each)
	}
	a.base.Store(base)
	a.token = token
	return nil
}

// reload takes a new token over. A file that cannot be read changes nothing.
func (a *agent) reload() {
	token, err := a.readToken()
	if err != nil {
		log.Printf("overview-agent: the token stays as it is: %v", err)
		return
	}
	if token == a.token {
		return
	}
	before := a.base.Load()
	made, err := before.WithToken(token)
	if err == nil {
		err = a.use(made, token)
	}
	if err != nil {
		log.Printf("overview-agent: the token stays as it is: %v", err)
		return
	}
	log.Print("overview-agent: there is a new token")
	time.AfterFunc(lastReports, before.Close)
}
