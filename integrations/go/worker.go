package developeroverview

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

// The calls to the Worker: decisions, and the probes that say whether it is away.

const (
	api = "/team/v1"
	// The name, the version and the number of the protocol (integrations/protocol.md) of this client.
	userAgent     = "developer-overview-go/0.1.0 (protocol 1)"
	protocol      = 1
	probes        = 3
	probeTimeout  = time.Second
	betweenProbes = 100 * time.Millisecond
	lateTime      = 1500 * time.Millisecond
	// While the Worker is away, it is called at most once in this time: in the mode "known" to end soon, in the mode "deny" to spare it.
	pauseOfDeny  = 5 * time.Second
	pauseOfKnown = time.Second
)

// item is the answer about one key. Only an answer that has "allowed" is a decision. What follows Retry is about a lease.
type item struct {
	Answer
	Allowed    *bool    `json:"allowed"`
	Retry      bool     `json:"retry"`
	Lease      string   `json:"lease"`
	Units      int      `json:"units"`
	ForMs      int64    `json:"for_ms"`
	IsUrgent   bool     `json:"is_urgent"`
	Order      int64    `json:"order"`
	AllowedIPs []string `json:"allowed_ips"`
	text       []byte
}

func newID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return hex.EncodeToString(id)
}

// Verify decides about a request, within the time for a decision. It never fails: without a decision of the Worker, the request is denied with 503.
func (v *Verifier) Verify(ctx context.Context, request Request) *Answer {
	started := time.Now()
	request = request.described()
	id := idOf(request.Key)
	decision := v.verify(ctx, id, request)
	decision.credential = id
	decision.Enforced = decision.Enforced || request.Shadow == nil
	v.ends.note(id, decision)
	return v.told(decision, started)
}

// told counts a decision, tells the team of it, and returns it. A denial that needs no call comes here, too.
func (v *Verifier) told(decision *Answer, started time.Time) *Answer {
	v.counts.decisions.Add(1)
	if !decision.Allowed {
		v.counts.denied.Add(1)
	} else if decision.Degraded {
		v.counts.degraded.Add(1)
	}
	if v.options.OnDecision != nil {
		v.options.OnDecision(Decision{
			Allowed: decision.Allowed, Degraded: decision.Degraded, Status: decision.Status, Code: decision.Code,
			Account: decision.Account, Key: decision.Key, Took: time.Since(started),
		})
	}
	return decision
}

func (v *Verifier) verify(ctx context.Context, id string, request Request) *Answer {
	if len(request.Key) > maxKey {
		decision := denied(http.StatusUnauthorized, "invalid_key", "API key invalid", "A credential has at most 4,096 characters.")
		decision.Headers = map[string]string{"WWW-Authenticate": `Bearer realm="api", error="invalid_token"`}
		return decision
	}
	if decision := v.byLease(id, request, false); decision != nil {
		return decision
	}
	ctx, cancel := context.WithTimeout(ctx, v.core.options.Timeout)
	defer cancel()
	v.probeIfDue(ctx)
	if away, left := v.away(); away {
		return v.withoutWorker(id, request, left)
	}
	// A request waits for a slot for half of its time, so that the call has the other half.
	turn, cancelTurn := context.WithTimeout(ctx, v.core.options.Timeout/2)
	defer cancelTurn()
	work := func(key *share) *Answer {
		if decision := v.awaitLease(ctx, id, key, request); decision != nil {
			return decision
		}
		return v.ask(ctx, id, key, request)
	}
	if decision := v.shares.run(turn, id, work); decision != nil {
		return decision
	}
	return unavailable(0)
}

// failure is a call without a decision. isLost: the connection failed. again: the call can be sent once more.
type failure struct {
	error
	isLost, again bool
}

// ask sends a call that failed once more with the same request_id, so that the request counts once.
func (v *Verifier) ask(ctx context.Context, id string, key *share, request Request) *Answer {
	if request.RequestID == "" {
		request.RequestID = newID()
	}
	started := time.Now()
	for isFirst := true; ; isFirst = false {
		asked := v.question(id, key, request.Cost)
		decision, failed := v.inTime(ctx, asked, func(ctx context.Context) (*Answer, *failure) {
			found, failed := v.decision(ctx, request, asked)
			if failed != nil {
				v.keepBack(id, asked)
				return nil, failed
			}
			decision := v.take(id, asked, request, found)
			v.shares.note(id, decision)
			v.mutex.Lock()
			if isRemoving(decision.Status) {
				key.deniedAt = time.Now()
			}
			// An older answer never brings back a credential that was denied meanwhile.
			isCurrent := !decision.Allowed || started.After(key.deniedAt)
			v.mutex.Unlock()
			if v.known != nil && isCurrent {
				v.known.note(id, request.IP, decision, found.text)
			}
			return decision, nil
		})
		v.asked(key, asked.own, failed == nil)
		if failed == nil {
			return decision
		}
		if isFirst && failed.again && ctx.Err() == nil {
			continue
		}
		v.say(failed)
		if failed.isLost {
			v.probe(ctx, probes)
			if away, left := v.away(); away {
				return v.withoutWorker(id, request, left)
			}
		}
		return unavailable(0)
	}
}

// inTime runs a call until ctx ends. A lease that comes too late for the request that asked for it serves those that follow, so its call goes on.
func (v *Verifier) inTime(ctx context.Context, asked question, call func(context.Context) (*Answer, *failure)) (*Answer, *failure) {
	if asked.Want == 0 {
		return call(ctx)
	}
	type outcome struct {
		decision *Answer
		failed   *failure
	}
	done := make(chan outcome, 1)
	go func() {
		longer, cancel := context.WithTimeout(context.Background(), v.core.options.Timeout+lateTime)
		defer cancel()
		decision, failed := call(longer)
		done <- outcome{decision, failed}
	}()
	select {
	case made := <-done:
		return made.decision, made.failed
	case <-ctx.Done():
		return nil, &failure{error: errors.New("the Worker did not respond in time")}
	}
}

func (v *Verifier) decision(ctx context.Context, request Request, asked question) (*item, *failure) {
	path, sent := "/verify", interface{}(request)
	if v.leases != nil {
		path, sent = "/leases", v.leaseCall([]interface{}{leaseItem{Key: &request.Key, Request: &described{Request: request}, question: asked}})
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, &failure{error: err}
	}
	status, text, err := v.post(ctx, path, body)
	switch {
	case err != nil && (ctx.Err() != nil || isTimeout(err)):
		// A time-out, or a client that has gone, says nothing about other calls.
		return nil, &failure{error: errors.New("the Worker did not respond in time")}
	case err != nil:
		return nil, &failure{error: err, isLost: status == 0 && !isLocal(err), again: true}
	case status != http.StatusOK:
		// A service token that the Worker rejects is an error of this service, never one of the client.
		again := status >= 500 || status == http.StatusTooManyRequests
		return nil, &failure{error: fmt.Errorf("the Worker responded with %d: %.500s", status, text), again: again}
	}
	texts := []json.RawMessage{text}
	if v.leases != nil {
		texts = itemsIn(text)
	}
	found := &item{}
	if len(texts) != 1 || json.Unmarshal(texts[0], found) != nil || (found.Allowed == nil && !found.Retry) {
		return nil, &failure{error: errors.New("the answer is not a decision"), again: true}
	}
	if found.Retry {
		return nil, &failure{error: errors.New("the guard of a key has not responded in time"), again: true}
	}
	found.Answer.Allowed, found.text = *found.Allowed, texts[0]
	return found, nil
}

func itemsIn(text []byte) []json.RawMessage {
	var answer struct {
		Data []json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(text, &answer)
	return answer.Data
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isLocal returns whether this machine has failed. Clients can bring that about with many connections, so it never shows that the Worker is away.
func isLocal(err error) bool {
	for _, each := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(err, each) {
			return true
		}
	}
	return false
}

// canOpen returns whether this process can open files. If it cannot, looking up a name fails as if there were no such name.
func canOpen() bool {
	file, err := os.Open(os.DevNull)
	return err == nil && file.Close() == nil
}

// PassOn sends a body to a path below /team/v1 as it is, and returns the status and the text of the answer.
func (v *Verifier) PassOn(ctx context.Context, path string, body []byte) (int, []byte, error) {
	return v.post(ctx, path, body)
}

// post returns the status 0 if there was no answer.
func (c *core) post(ctx context.Context, path string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+api+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	token := c.options.Token
	if path == "/reports" || path == "/shadow" {
		token, _ = c.newest.Load().(string)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", userAgent)
	return c.do(request)
}

func (c *core) do(request *http.Request) (int, []byte, error) {
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	// Any answer shows that the Worker is there.
	c.mutex.Lock()
	c.answers++
	c.isAway = false
	c.mutex.Unlock()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// away returns whether no connection to the Worker can be made, and what is left of the pause.
func (c *core) away() (bool, time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.isAway, time.Until(c.probeAt)
}

// withoutWorker lets a credential pass that was allowed before, or denies the request.
func (c *core) withoutWorker(id string, request Request, left time.Duration) *Answer {
	if c.known != nil {
		if found := c.known.find(id, request); found != nil {
			return &Answer{Allowed: true, Status: http.StatusOK, Degraded: true, Account: found.Account, Key: found.Key}
		}
	}
	return unavailable(left)
}

// probeIfDue probes once when the pause is over. Only one request waits for the probe.
func (c *core) probeIfDue(ctx context.Context) {
	c.mutex.Lock()
	isDue := c.isAway && c.probing == nil && !time.Now().Before(c.probeAt)
	c.mutex.Unlock()
	if isDue {
		c.probe(ctx, 1)
	}
}

// probe sends probes. If all of them fail, the Worker is away. Calls at the same time share one series of probes.
func (c *core) probe(ctx context.Context, count int) {
	c.mutex.Lock()
	done := c.probing
	if done == nil {
		done = make(chan struct{})
		c.probing = done
		go c.sendProbes(count, c.answers, done)
	}
	c.mutex.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (c *core) sendProbes(count, before int, done chan struct{}) {
	defer close(done)
	for sent := 0; sent < count; sent++ {
		if sent > 0 {
			time.Sleep(betweenProbes)
		}
		err := c.sendProbe()
		// A machine that cannot open a connection knows nothing about the Worker.
		isOver := err != nil && (isLocal(err) || !canOpen())
		c.mutex.Lock()
		isOver = isOver || c.answers != before
		if !isOver && sent == count-1 {
			c.isAway, c.probeAt = true, time.Now().Add(c.pause)
		}
		if isOver || sent == count-1 {
			c.probing = nil
		}
		c.mutex.Unlock()
		if isOver {
			return
		}
	}
}

func (c *core) sendProbe() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/health", nil)
	if err == nil {
		_, _, err = c.do(request)
	}
	return err
}

func unavailable(left time.Duration) *Answer {
	decision := denied(http.StatusServiceUnavailable, "unavailable", "Unavailable", "The service cannot verify API keys right now. Try again in a moment.")
	decision.Degraded = true
	seconds := int64((left + time.Second - 1) / time.Second)
	if seconds < 1 {
		seconds = 1
	}
	decision.Headers = map[string]string{"Retry-After": strconv.FormatInt(seconds, 10)}
	return decision
}

func denied(status int, code, title, detail string) *Answer {
	// The order of the members is that of the Worker.
	problem, _ := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", title, status, detail, code})
	return &Answer{Status: status, Code: code, Problem: problem}
}
