package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf16"

	"developeroverview"
)

const (
	maxBody = 1 << 21
	maxCost = 1000
	// Calls with the same request_id count once within this time.
	sameFor = 10 * time.Second
	maxSame = 20000
)

type current = atomic.Pointer[developeroverview.Verifier]

// forward decides about the requests of a proxy.
func (l listener) forward(verifier *current) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		v := verifier.Load()
		r, err := l.original(asked)
		if err != nil {
			sayUnstated(err)
			fail(w, http.StatusServiceUnavailable, "unavailable", err.Error())
			return
		}
		decision := v.Decide(r)
		if decision != nil && !decision.Allowed {
			v.Deny(w, r, l.shown(decision))
			return
		}
		for name, value := range identityOf(decision) {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusOK)
	})
}

// unstatedAt is when sayUnstated has last written.
var unstatedAt atomic.Int64

// sayUnstated writes to the log, at most one line in ten seconds.
func sayUnstated(err error) {
	now, before := time.Now().Unix(), unstatedAt.Load()
	if now-before >= 10 && unstatedAt.CompareAndSwap(before, now) {
		log.Printf("overview-agent: %v", err)
	}
}

// original returns the request that the proxy has received.
func (l listener) original(asked *http.Request) (*http.Request, error) {
	r := asked.Clone(asked.Context())
	r.RemoteAddr = ""
	if l.Source == "envoy" {
		return r, nil
	}
	names := [2]string{"X-Forwarded-Method", "X-Forwarded-Uri"}
	if l.Source == "original" {
		names = [2]string{"X-Original-Method", "X-Original-Uri"}
	}
	for _, name := range names {
		if len(r.Header.Values(name)) != 1 {
			return nil, fmt.Errorf("the proxy must send %s exactly once to %s", name, l.Listen)
		}
	}
	r.Method, r.RequestURI = r.Header.Get(names[0]), r.Header.Get(names[1])
	parsed, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		parsed = &url.URL{Path: path}
	}
	r.URL = parsed
	return r, nil
}

// shown returns a denial as the proxy can pass it on.
func (l listener) shown(decision *developeroverview.Answer) *developeroverview.Answer {
	if l.Deny == 0 {
		return decision
	}
	made := *decision
	made.Headers = map[string]string{"X-Verified-Problem": inASCII(decision.Problem)}
	for name, value := range decision.Headers {
		made.Headers[name] = value
	}
	if made.Status != http.StatusUnauthorized {
		made.Status = http.StatusForbidden
	}
	return &made
}

// inASCII returns JSON in ASCII, for a header.
func inASCII(text []byte) string {
	made := strings.Builder{}
	for _, each := range string(text) {
		if each >= ' ' && each <= '~' {
			made.WriteRune(each)
			continue
		}
		for _, unit := range utf16.Encode([]rune{each}) {
			fmt.Fprintf(&made, `\u%04x`, unit)
		}
	}
	return made.String()
}

// identityOf returns the headers of a response that lets a request through. All are there, because a proxy otherwise keeps those of the client.
func identityOf(decision *developeroverview.Answer) map[string]string {
	names := []string{"Account", "External-Id", "Key", "Scopes", "Receipt"}
	values := [5]string{}
	headers := map[string]string{}
	if decision != nil {
		values = [5]string{decision.Account.ID, "", decision.Key.ID, strings.Join(decision.Key.Scopes, " "), decision.Receipt}
		if id := decision.Account.ExternalID; id != nil {
			values[1] = *id
		}
		for name, value := range decision.Headers {
			headers[name] = value
		}
	}
	for index, name := range names {
		if headers["X-Verified-"+name] = values[index]; values[index] == "" {
			headers["X-Verified-"+name] = "-"
		}
	}
	return headers
}

// verify serves what the Worker serves to programs: POST /verify, /reports and /shadow, also under /team/v1, and GET /health.
func (a *agent) verify(verifier *current) http.Handler {
	asked := &sameCalls{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Overview-Protocol", "1")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		path := strings.TrimPrefix(r.URL.Path, "/team/v1")
		switch {
		case err != nil:
			fail(w, http.StatusRequestEntityTooLarge, "body_too_large", "The body has at most 2 MiB.")
		case r.Method == http.MethodGet && path == "/health":
			respond(w, map[string]string{"status": "ok"})
		case r.Method != http.MethodPost || (path != "/verify" && path != "/reports" && path != "/shadow"):
			fail(w, http.StatusNotFound, "not_found", "The agent serves POST /verify, /reports and /shadow.")
		case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
			fail(w, http.StatusUnsupportedMediaType, "unsupported_media_type", "The body must be JSON, with the type application/json.")
		case path == "/verify":
			given := developeroverview.Request{}
			if err := decode(body, &given); err != nil {
				fail(w, http.StatusBadRequest, "invalid_body", err.Error())
				return
			}
			if given.Cost < 0 || given.Cost > maxCost {
				fail(w, http.StatusUnprocessableEntity, "invalid_body", "cost must be from 1 to 1000.")
				return
			}
			if answer := asked.once(r.Context(), given, verifier.Load().Verify); answer != nil {
				respond(w, shownAnswer(answer))
			}
		case path == "/shadow":
			passOn(w, r, verifier.Load(), path, body)
		default:
			takeReports(w, verifier.Load(), body)
		}
	})
}

// passOn passes a call on to the Worker. Findings of shadow mode have the name and the numbers of the process that made them, so each counts once.
func passOn(w http.ResponseWriter, r *http.Request, v *developeroverview.Verifier, path string, body []byte) {
	status, text, err := v.PassOn(r.Context(), path, body)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "unavailable", "The Worker cannot be reached. Try again in a moment.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// takeReports takes reports over. The Worker gets them within a second.
func takeReports(w http.ResponseWriter, v *developeroverview.Verifier, body []byte) {
	given := struct {
		Reports []json.RawMessage `json:"reports"`
	}{}
	if err := json.Unmarshal(body, &given); err != nil {
		fail(w, http.StatusBadRequest, "invalid_body", err.Error())
		return
	}
	results := []map[string]interface{}{}
	for index, row := range given.Reports {
		each := struct {
			Receipt    string  `json:"receipt"`
			Status     float64 `json:"status"`
			DurationMs float64 `json:"duration_ms"`
			Route      string  `json:"route"`
			Streaming  bool    `json:"streaming"`
		}{}
		// A row that cannot be read holds no other one back.
		if json.Unmarshal(row, &each) != nil || each.Receipt == "" {
			results = append(results, map[string]interface{}{"index": index, "status": http.StatusUnprocessableEntity, "code": "invalid_receipt"})
			continue
		}
		took := time.Duration(each.DurationMs * float64(time.Millisecond))
		v.Report(developeroverview.Report{Receipt: each.Receipt, Status: int(each.Status), Duration: took, Route: each.Route, Streaming: each.Streaming})
		results = append(results, map[string]interface{}{"index": index, "status": http.StatusOK, "code": nil})
	}
	respond(w, map[string]interface{}{"data": results})
}

// shownAnswer returns an answer as the Worker writes it.
func shownAnswer(answer *developeroverview.Answer) interface{} {
	textOrNull := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	made := *answer
	if made.Headers == nil {
		made.Headers = map[string]string{}
	}
	if made.RateLimits == nil {
		made.RateLimits = []developeroverview.RateLimit{}
	}
	return struct {
		*developeroverview.Answer
		Code    *string `json:"code"`
		Receipt *string `json:"receipt"`
	}{&made, textOrNull(made.Code), textOrNull(made.Receipt)}
}

// sameCalls remembers answers, so that calls with the same request_id count once.
type sameCalls struct {
	mutex       sync.Mutex
	now, before map[[32]byte]*sameCall
	since       time.Time
}

type sameCall struct {
	done   chan struct{}
	answer *developeroverview.Answer
}

type verify func(context.Context, developeroverview.Request) *developeroverview.Answer

// once decides about a call, or waits for the answer to the same call. It returns nil if the caller has gone meanwhile.
func (s *sameCalls) once(ctx context.Context, request developeroverview.Request, verify verify) *developeroverview.Answer {
	body, _ := json.Marshal(request)
	same := sha256.Sum256(body)
	// The agent counts the call once, so a lease can decide about it.
	id := request.RequestID
	if request.RequestID = ""; id == "" {
		return verify(ctx, request)
	}
	s.mutex.Lock()
	if time.Since(s.since) > sameFor || len(s.now) > maxSame {
		s.now, s.before, s.since = map[[32]byte]*sameCall{}, s.now, time.Now()
	}
	found := s.now[same]
	if found == nil {
		found = s.before[same]
	}
	if found != nil {
		s.mutex.Unlock()
		select {
		case <-found.done:
			return found.answer
		case <-ctx.Done():
			return nil
		}
	}
	made := &sameCall{done: make(chan struct{})}
	s.now[same] = made
	s.mutex.Unlock()
	// The same call may come again when this caller has gone.
	made.answer = verify(context.Background(), request)
	close(made.done)
	if made.answer.Status == http.StatusServiceUnavailable {
		s.mutex.Lock()
		delete(s.now, same)
		delete(s.before, same)
		s.mutex.Unlock()
	}
	return made.answer
}

// status serves /healthz and /metrics.
func (a *agent) status() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]interface{}{"status": "ok", "worker_away": a.base.Load().Stats().Away})
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		stats := a.base.Load().Stats()
		away := 0
		if stats.Away {
			away = 1
		}
		figures := map[string]int{
			`dvo_agent_decisions_total{by="lease"}`:  stats.ByLease,
			`dvo_agent_decisions_total{by="worker"}`: stats.Decisions - stats.ByLease,
			"dvo_agent_denied_total":                 stats.Denied,
			"dvo_agent_degraded_total":               stats.Degraded,
			"dvo_agent_lease_units_total":            stats.Units,
			"dvo_agent_lease_units_unused_total":     stats.Unused,
			"dvo_agent_reports_dropped_total":        stats.Dropped,
			"dvo_agent_reports_waiting":              stats.Waiting,
			"dvo_agent_worker_away":                  away,
		}
		lines := []string{}
		for name, value := range figures {
			lines = append(lines, fmt.Sprintf("%s %d\n", name, value))
		}
		sort.Strings(lines)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, strings.Join(lines, ""))
	})
	return mux
}

func respond(w http.ResponseWriter, body interface{}) {
	w.Header().Set("Content-Type", "application/json")
	text := &bytes.Buffer{}
	_ = json.NewEncoder(text).Encode(body)
	_, _ = w.Write(text.Bytes())
}

func fail(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]interface{}{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "code": code})
}
