// Package developeroverview is middleware for net/http: it verifies API keys with Developer Overview, and reports responses. It needs the standard
// library alone, Go 1.19 or newer.
package developeroverview

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	reportEvery   = time.Second
	reportsAtOnce = 500
	maxWaiting    = 10000
	// A response can be reported for ten minutes.
	openFor = 10 * time.Minute
	// After this many failures in a row, the Worker is not called for a while.
	failuresToOpen = 5
	pause          = 5 * time.Second
)

// Options configure a Verifier.
type Options struct {
	// URL is the origin of the Worker.
	URL string
	// Token is a service token with the scope "verify".
	Token string
	// AllowWhenUnavailable lets requests through while the Worker cannot be reached. Otherwise they get 503.
	AllowWhenUnavailable bool
	// Timeout is the time for one call. The default is two seconds.
	Timeout time.Duration
	// KeyHeaders are the headers in which the key may be. The default is Authorization and X-API-Key.
	KeyHeaders []string
	// ClientIP returns the address of the client. The default is the address of the connection.
	ClientIP func(*http.Request) string
	// Scope returns the scope that a request needs, or an empty string.
	Scope func(*http.Request) string
	// Cost returns the number of units that a request uses. The default is 1.
	Cost func(*http.Request) int
	// Route returns the route of a request for the log, or an empty string.
	Route func(*http.Request) string
}

// Account is the account of a verified key.
type Account struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Metadata   map[string]interface{} `json:"metadata"`
}

// Key is a verified key.
type Key struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Scopes     []string               `json:"scopes"`
	Metadata   map[string]interface{} `json:"metadata"`
	ExpiresAt  *string                `json:"expires_at"`
}

// Verified says who has sent a request. Account and Key are nil if the Worker could not be reached.
type Verified struct {
	Account  *Account
	Key      *Key
	Degraded bool
}

type answer struct {
	Allowed  *bool             `json:"allowed"`
	Status   int               `json:"status"`
	Degraded bool              `json:"degraded"`
	Receipt  *string           `json:"receipt"`
	Account  *Account          `json:"account"`
	Key      *Key              `json:"key"`
	Headers  map[string]string `json:"headers"`
	Problem  json.RawMessage   `json:"problem"`
}

type report struct {
	Receipt    string  `json:"receipt"`
	Status     int     `json:"status"`
	DurationMs float64 `json:"duration_ms"`
	Route      string  `json:"route,omitempty"`
	at         time.Time
}

// Verifier verifies requests and reports responses. Create one for the whole process.
type Verifier struct {
	options Options
	base    string
	client  *http.Client

	mutex       sync.Mutex
	waiting     []report
	failures    int
	pausedUntil time.Time
	stop        chan struct{}
	stopped     sync.Once
	sending     sync.Mutex
}

// New returns a Verifier. It fails if the URL or the token is missing.
func New(options Options) (*Verifier, error) {
	parsed, err := url.Parse(options.URL)
	if err != nil || parsed.Host == "" {
		return nil, fmt.Errorf("developeroverview: URL must be the origin of the Worker, not %q", options.URL)
	}
	if options.Token == "" {
		return nil, errors.New("developeroverview: Token is missing")
	}
	if options.Timeout == 0 {
		options.Timeout = 2 * time.Second
	}
	if options.KeyHeaders == nil {
		options.KeyHeaders = []string{"Authorization", "X-API-Key"}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	verifier := &Verifier{
		options: options,
		base:    strings.TrimSuffix(parsed.Scheme+"://"+parsed.Host, "/") + "/operator/api",
		client:  &http.Client{Timeout: options.Timeout, Transport: transport},
		stop:    make(chan struct{}),
	}
	go verifier.run()
	return verifier, nil
}

type contextKey struct{}

// FromContext returns who has sent the request of a handler, or nil.
func FromContext(ctx context.Context) *Verified {
	verified, _ := ctx.Value(contextKey{}).(*Verified)
	return verified
}

// Middleware verifies each request before the handler runs, and reports the response.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Verified-") {
				r.Header.Del(name)
			}
		}
		decision := v.decide(r)
		for name, value := range decision.Headers {
			w.Header().Set(name, value)
		}
		if !*decision.Allowed {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(decision.Status)
			_, _ = w.Write(decision.Problem)
			return
		}
		recorded := &recorder{ResponseWriter: w, status: http.StatusOK}
		verified := &Verified{Account: decision.Account, Key: decision.Key, Degraded: decision.Degraded}
		request := r.WithContext(context.WithValue(r.Context(), contextKey{}, verified))
		isDone := false
		defer func() {
			status := recorded.status
			// net/http closes the connection of a handler that panics, and sends no response.
			if !isDone && !recorded.isWritten {
				status = http.StatusInternalServerError
			}
			v.report(decision, status, time.Since(started), request)
		}()
		next.ServeHTTP(recorded, request)
		isDone = true
	})
}

// Close sends all reports that wait. Call it when the process stops.
func (v *Verifier) Close() {
	v.stopped.Do(func() { close(v.stop) })
	for left := v.waitingReports(); left > 0; {
		v.send()
		now := v.waitingReports()
		if now >= left {
			return
		}
		left = now
	}
}

func (v *Verifier) decide(r *http.Request) *answer {
	key, different := "", false
	for _, name := range v.options.KeyHeaders {
		value := r.Header.Get(name)
		if value == "" {
			continue
		}
		different = different || (key != "" && tokenOf(value) != tokenOf(key))
		if key == "" {
			key = value
		}
	}
	if different {
		return denied(http.StatusBadRequest, "invalid_header", "Invalid header", "The request has two different credentials.")
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return v.without()
	}
	request := map[string]interface{}{"key": key, "method": r.Method, "path": r.URL.EscapedPath(), "request_id": hex.EncodeToString(id)}
	if ip := v.clientIP(r); ip != "" {
		request["ip"] = ip
	}
	if v.options.Scope != nil && v.options.Scope(r) != "" {
		request["scope"] = v.options.Scope(r)
	}
	if v.options.Cost != nil && v.options.Cost(r) > 0 {
		request["cost"] = v.options.Cost(r)
	}
	return v.verify(request)
}

// tokenOf returns the credential itself, to compare the credentials of two headers.
func tokenOf(value string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return strings.TrimSpace(rest)
	case "basic":
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			user, password, _ := strings.Cut(string(decoded), ":")
			if password != "" {
				return password
			}
			return user
		}
	}
	return strings.TrimSpace(value)
}

func (v *Verifier) clientIP(r *http.Request) string {
	if v.options.ClientIP != nil {
		return v.options.ClientIP(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// verify sends a failed call once more with the same request_id, so that the request counts once.
func (v *Verifier) verify(request map[string]interface{}) *answer {
	body, err := json.Marshal(request)
	if err != nil || v.isPaused() {
		return v.without()
	}
	for attempt := 0; attempt < 2; attempt++ {
		decision, rejected, err := v.decision(body)
		if err == nil {
			v.note(true)
			return decision
		}
		log.Printf("developeroverview: %v", err)
		if rejected {
			return unavailable()
		}
	}
	v.note(false)
	return v.without()
}

// decision returns rejected if the Worker rejects the call itself, for example because the token is wrong.
func (v *Verifier) decision(body []byte) (decision *answer, rejected bool, err error) {
	status, text, err := v.post("/verify", body)
	if err != nil {
		return nil, false, err
	}
	if status >= 500 || status == http.StatusTooManyRequests {
		return nil, false, fmt.Errorf("the Worker responded with %d", status)
	}
	if status != http.StatusOK {
		return nil, true, fmt.Errorf("the Worker rejected the call to verify: %d %.500s", status, text)
	}
	decision = &answer{}
	if err := json.Unmarshal(text, decision); err != nil {
		return nil, false, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if decision.Allowed == nil {
		return nil, false, errors.New("the answer is not a decision")
	}
	return decision, false, nil
}

func (v *Verifier) post(path string, body []byte) (int, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, v.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+v.options.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := v.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

func (v *Verifier) isPaused() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return time.Now().Before(v.pausedUntil)
}

func (v *Verifier) note(isReached bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if isReached {
		v.failures = 0
		return
	}
	v.failures++
	if v.failures >= failuresToOpen {
		v.pausedUntil = time.Now().Add(pause)
	}
}

func (v *Verifier) without() *answer {
	if !v.options.AllowWhenUnavailable {
		return unavailable()
	}
	allowed := true
	return &answer{Allowed: &allowed, Status: http.StatusOK, Degraded: true}
}

func unavailable() *answer {
	decision := denied(http.StatusServiceUnavailable, "unavailable", "Unavailable", "The service cannot verify API keys right now. Try again in a moment.")
	decision.Headers = map[string]string{"Retry-After": "2"}
	return decision
}

func denied(status int, code, title, detail string) *answer {
	allowed := false
	problem, _ := json.Marshal(map[string]interface{}{"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code})
	return &answer{Allowed: &allowed, Status: status, Problem: problem}
}

func (v *Verifier) report(decision *answer, status int, duration time.Duration, r *http.Request) {
	if decision.Receipt == nil {
		return
	}
	made := report{Receipt: *decision.Receipt, Status: status, DurationMs: float64(duration.Microseconds()) / 1000, at: time.Now()}
	if v.options.Route != nil {
		made.Route = v.options.Route(r)
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if len(v.waiting) >= maxWaiting {
		v.waiting = v.waiting[1:]
	}
	v.waiting = append(v.waiting, made)
}

func (v *Verifier) waitingReports() int {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return len(v.waiting)
}

func (v *Verifier) run() {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			v.send()
		case <-v.stop:
			return
		}
	}
}

func (v *Verifier) send() {
	v.sending.Lock()
	defer v.sending.Unlock()
	batch := v.take()
	if len(batch) == 0 {
		return
	}
	left, err := v.sendBatch(batch)
	if err != nil {
		log.Printf("developeroverview: %d reports wait: %v", len(batch), err)
		left = batch
	}
	v.mutex.Lock()
	v.waiting = append(left, v.waiting...)
	v.mutex.Unlock()
}

func (v *Verifier) take() []report {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	open := make([]report, 0, len(v.waiting))
	for _, each := range v.waiting {
		if time.Since(each.at) < openFor {
			open = append(open, each)
		}
	}
	count := len(open)
	if count > reportsAtOnce {
		count = reportsAtOnce
	}
	v.waiting = open[count:]
	return append([]report(nil), open[:count]...)
}

// sendBatch returns the reports whose log writer could not be reached. All other results are final.
func (v *Verifier) sendBatch(batch []report) ([]report, error) {
	body, err := json.Marshal(map[string]interface{}{"reports": batch})
	if err != nil {
		return nil, err
	}
	status, text, err := v.post("/reports", body)
	if err != nil {
		return nil, err
	}
	var results struct {
		Data []struct {
			Status int `json:"status"`
		} `json:"data"`
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("the Worker responded with %d", status)
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, err
	}
	var left []report
	for index, result := range results.Data {
		if result.Status == http.StatusServiceUnavailable && index < len(batch) {
			left = append(left, batch[index])
		}
	}
	return left, nil
}

// recorder remembers the status of a response.
type recorder struct {
	http.ResponseWriter
	status    int
	isWritten bool
}

func (r *recorder) WriteHeader(status int) {
	if !r.isWritten {
		r.status, r.isWritten = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(body []byte) (int, error) {
	r.isWritten = true
	return r.ResponseWriter.Write(body)
}

// Flush sends what is buffered, if the server can do that.
func (r *recorder) Flush() {
	if flusher, ok := r.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}
