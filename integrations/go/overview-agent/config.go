package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"

	"developeroverview"
)

// settings are what the flags and the file say.
type settings struct {
	URL           string     `json:"url"`
	TokenFile     string     `json:"token_file"`
	OnUnavailable string     `json:"on_unavailable"`
	Status        string     `json:"status"`
	Listeners     []listener `json:"listeners"`
}

// needs are what a request needs and uses.
type needs struct {
	Scope  string                   `json:"scope"`
	Scopes developeroverview.Scopes `json:"scopes"`
	Cost   int                      `json:"cost"`
}

type route struct {
	Row string `json:"row"`
	needs
}

// listener is an address with its own options. Nothing in a request changes them.
type listener struct {
	Listen string `json:"listen"`
	// Serves is "forward", for a proxy that asks before it passes a request on, or "verify", for programs that ask as they would ask the Worker.
	Serves string `json:"serves"`
	// Source says where a proxy states the method and the path: "forwarded" and "original" are the headers X-Forwarded-* and X-Original-*, and with
	// "envoy" the call itself has them.
	Source string `json:"source"`
	needs
	Routes         []route  `json:"routes"`
	Skip           []string `json:"skip"`
	Preflight      string   `json:"preflight"`
	Missing        string   `json:"missing"`
	Unknown        string   `json:"unknown"`
	Origins        []string `json:"origins"`
	KeyHeaders     []string `json:"key_headers"`
	ClientIPHeader string   `json:"client_ip_header"`
	Report         bool     `json:"report"`
	// Deny is 403 for nginx, which knows only the denials 401 and 403.
	Deny   int  `json:"deny"`
	Remote bool `json:"remote"`
	// Mode is "shadow" for a listener that lets every request through. Enforce names the accounts that are the exception.
	Mode    string                         `json:"mode"`
	Enforce *developeroverview.Enforcement `json:"enforce"`
}

// listenFlags are the values of -listen: "ADDRESS; forward; source=original; scope=orders:read".
type listenFlags []listener

func (l *listenFlags) String() string { return "" }

func (l *listenFlags) Set(text string) error {
	parts := strings.Split(text, ";")
	if len(parts) < 2 {
		return errors.New(`it must look like "127.0.0.1:8791; forward; source=original"`)
	}
	members := map[string]interface{}{"listen": strings.TrimSpace(parts[0]), "serves": strings.TrimSpace(parts[1])}
	for _, part := range parts[2:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "skip" || name == "origins" || name == "key_headers":
			members[name] = strings.Split(value, ",")
		case name == "cost" || name == "deny" || name == "report" || name == "remote" || name == "enforce":
			members[name] = json.RawMessage(value)
		default:
			members[name] = value
		}
	}
	body, err := json.Marshal(members)
	if err != nil {
		return err
	}
	made := listener{}
	if err := decode(body, &made); err != nil {
		return err
	}
	*l = append(*l, made)
	return nil
}

// decode decodes JSON. A member that nobody knows is an error, so that a misspelled option never goes unnoticed.
func decode(body []byte, into interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// settingsOf reads the flags, and the file that they name. A flag comes before the file.
func settingsOf(flags *flag.FlagSet, args []string) (settings, error) {
	made, listeners := settings{}, listenFlags{}
	file := flags.String("config", "", "a file with settings, in JSON")
	url := flags.String("url", "", "the origin of the Worker")
	tokenFile := flags.String("token-file", "", "the file with the service token, in place of the environment variable OVERVIEW_TOKEN")
	onUnavailable := flags.String("on-unavailable", "", "deny or known: what happens while the Worker is away")
	status := flags.String("status", "", "the address for /healthz and /metrics")
	flags.Var(&listeners, "listen", `an address and its options: "127.0.0.1:8791; forward; source=original; scope=orders:read"`)
	if err := flags.Parse(args); err != nil {
		return made, err
	}
	if *file != "" {
		body, err := os.ReadFile(*file)
		if err != nil {
			return made, err
		}
		if err := decode(body, &made); err != nil {
			return made, fmt.Errorf("%s: %w", *file, err)
		}
	}
	for _, each := range []struct{ from, to *string }{
		{url, &made.URL}, {tokenFile, &made.TokenFile}, {onUnavailable, &made.OnUnavailable}, {status, &made.Status},
	} {
		if *each.from != "" {
			*each.to = *each.from
		}
	}
	made.Listeners = append(made.Listeners, listeners...)
	if len(made.Listeners) == 0 {
		return made, errors.New("there is no listener: say -listen, or listeners in the file")
	}
	for index := range made.Listeners {
		if err := made.Listeners[index].check(); err != nil {
			return made, fmt.Errorf("the listener %s: %w", made.Listeners[index].Listen, err)
		}
	}
	return made, nil
}

func (l *listener) maxCost() int {
	most := l.Cost
	for _, each := range l.Routes {
		if each.Cost > most {
			most = each.Cost
		}
	}
	return most
}

func (l *listener) check() error {
	isForward := l.Serves == "forward"
	if isForward && l.ClientIPHeader == "" {
		l.ClientIPHeader = "X-Real-IP"
	}
	switch {
	case !isForward && l.Serves != "verify":
		return fmt.Errorf(`serves must be "forward" or "verify", not %q`, l.Serves)
	case isForward && l.Source != "forwarded" && l.Source != "original" && l.Source != "envoy":
		return fmt.Errorf(`source must be "forwarded", "original" or "envoy", not %q`, l.Source)
	case l.Deny != 0 && l.Deny != http.StatusForbidden:
		return fmt.Errorf("deny must be 403, not %d", l.Deny)
	case !isForward && !reflect.DeepEqual(*l, listener{Listen: l.Listen, Serves: l.Serves, Remote: l.Remote}):
		return errors.New("a listener for programs has only listen, serves and remote: a program says what it needs in its request")
	case l.maxCost() > maxCost || l.Cost < 0:
		return errors.New("cost must be from 1 to 1000")
	case strings.HasPrefix(l.Listen, "unix:") || l.Remote:
		return nil
	}
	host, _, err := net.SplitHostPort(l.Listen)
	if address := net.ParseIP(host); err == nil && host != "localhost" && (address == nil || !address.IsLoopback()) {
		return errors.New("whoever can reach it can ask in your name: listen on 127.0.0.1 or a socket, or set remote to true if your network keeps others away")
	}
	return err
}

// apply sets the options of a listener.
func (l listener) apply(options *developeroverview.Options) {
	options.Scope = func(*http.Request) string { return l.Scope }
	options.Scopes = func(*http.Request) developeroverview.Scopes { return l.Scopes }
	options.Cost = func(*http.Request) int { return l.Cost }
	for _, each := range l.Routes {
		own := developeroverview.Needs{Scope: each.Scope, All: each.Scopes.All, Any: each.Scopes.Any, Cost: each.Cost}
		options.Routes = append(options.Routes, developeroverview.Route{Row: each.Row, Needs: own})
	}
	options.Skip = func(r *http.Request) bool {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		for _, each := range l.Skip {
			if path == each {
				return true
			}
		}
		return false
	}
	options.Preflight, options.Missing, options.Unknown = l.Preflight, l.Missing, l.Unknown
	options.Mode, options.Enforcement = l.Mode, l.Enforce
	// In shadow mode, the proxy gets its answer before there is a receipt.
	options.Origins, options.NoReport = l.Origins, !l.Report || (l.Mode == developeroverview.Shadow && l.Enforce == nil)
	if l.KeyHeaders != nil {
		options.KeyHeaders = l.KeyHeaders
	}
	options.ClientIP = func(r *http.Request) string {
		// A client that can send the header twice chooses its address.
		if sent := r.Header.Values(l.ClientIPHeader); len(sent) == 1 {
			return sent[0]
		}
		return ""
	}
}
