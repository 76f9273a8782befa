package developeroverview

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
)

// Reports are sent in batches. One report that the Worker does not accept never holds the others back.

const (
	reportEvery   = time.Second
	reportTimeout = 10 * time.Second
	reportsAtOnce = 500
	maxWaiting    = 50000
	// Batches on their way at the same time, so that a Worker far away takes 20,000 a second.
	lanes         = 4
	maxRoute      = 200
	maxDurationMs = 86400000
	// A response can be reported for ten minutes.
	openFor = 10 * time.Minute
	// A batch is halved at most this often until the next second.
	maxHalvings = 100
)

// Report is the response to a request that was allowed.
type Report struct {
	// Receipt is the receipt of the decision. A report without one is left out.
	Receipt string
	Status  int
	// Duration is the time from the decision to the end of the response.
	Duration time.Duration
	// Route is the route of the request, for the log.
	Route string
	// Streaming says that the response still runs.
	Streaming bool
}

// response is a report as POST /team/v1/reports takes it.
type response struct {
	Receipt    string  `json:"receipt"`
	Status     int     `json:"status"`
	DurationMs float64 `json:"duration_ms"`
	Route      string  `json:"route,omitempty"`
	Streaming  bool    `json:"streaming,omitempty"`
}

type waiting struct {
	at   time.Time
	body interface{}
}

// reports are the reports, or the entries, that wait. member says which.
type reports struct {
	member  string
	core    *core
	sending sync.Mutex

	mutex   sync.Mutex
	waiting []waiting
	later   []waiting
	// left is how many of those that wait the flush takes that runs.
	left    int
	dropped int
}

func newReports(member string, core *core) *reports {
	made := &reports{member: member, core: core}
	go core.everySecond(made.flush)
	return made
}

// Report adds the response to an allowed request to the log. It is sent within a second.
func (v *Verifier) Report(given Report) {
	if given.Receipt == "" {
		return
	}
	// A receipt of a lease is the entry itself.
	if strings.HasPrefix(given.Receipt, ofLeaseReceipt) {
		v.reportEntry(given.Receipt, &given)
		return
	}
	status, ms := given.shown()
	v.reports.add(response{given.Receipt, status, ms, cutRoute(given.Route), given.Streaming})
}

// reportEntry adds the entry of a request that a lease has decided. given: its response, if it is known.
func (v *Verifier) reportEntry(receipt string, given *Report) {
	made, entries := entry{}, v.entries
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(receipt, ofLeaseReceipt))
	if err != nil || json.Unmarshal(text, &made) != nil {
		return
	}
	if before := v.before.Load(); before != nil && made.By == before.holder && !before.isClosed() {
		// The Worker takes an entry from the token to which its lease was given.
		entries = before.entries
	}
	made.By = ""
	if given != nil {
		status, ms := given.shown()
		made.Status, made.DurationMs, made.Streaming = status, &ms, given.Streaming
		if given.Route != "" {
			made.Route = cutRoute(given.Route)
		}
	}
	entries.add(made)
}

// shown returns the status and the duration in milliseconds, within the bounds of the Worker.
func (given Report) shown() (int, float64) {
	status, ms := given.Status, float64(given.Duration.Microseconds())/1000
	if status < 100 || status > 599 {
		status = 599
	}
	return status, math.Min(math.Max(0, ms), maxDurationMs)
}

// cutRoute cuts a route. The Worker counts characters in UTF-16.
func cutRoute(route string) string {
	if units := utf16.Encode([]rune(route)); len(units) > maxRoute {
		return string(utf16.Decode(units[:maxRoute]))
	}
	return route
}

// everySecond sends what waits, until the verifier is closed.
func (c *core) everySecond(flush func()) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			flush()
		case <-c.stop:
			return
		}
	}
}

func (r *reports) stats() (waiting, dropped int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.waiting) + len(r.later), r.dropped
}

func (r *reports) add(body interface{}) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.waiting = append(r.waiting, waiting{time.Now(), body})
	r.bound()
}

func (r *reports) bound() {
	if over := len(r.waiting) - maxWaiting; over > 0 {
		r.waiting = r.waiting[over:]
		r.dropped += over
	}
}

// flush sends all reports that wait. It returns when they are sent, or when the Worker does not take them now.
func (r *reports) flush() {
	r.sending.Lock()
	defer r.sending.Unlock()
	// What comes meanwhile goes with the next flush, so that each flush ends.
	r.mutex.Lock()
	r.left = len(r.waiting)
	r.mutex.Unlock()
	sent := sync.WaitGroup{}
	for lane := 0; lane < lanes; lane++ {
		sent.Add(1)
		go func() {
			defer sent.Done()
			r.sendBatches()
		}()
	}
	sent.Wait()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.waiting = append(r.later, r.waiting...)
	r.later = nil
	r.bound()
}

// sendBatches sends batches until nothing waits, or until the Worker does not take one now.
func (r *reports) sendBatches() {
	var later []waiting
	var batches [][]waiting
	dropped, halvings := 0, 0
	for {
		var batch []waiting
		if len(batches) > 0 {
			batch, batches = batches[len(batches)-1], batches[:len(batches)-1]
		} else if batch = r.take(); len(batch) == 0 {
			break
		}
		statuses, isRefused := []int(nil), false
		if halvings <= maxHalvings {
			statuses, isRefused = r.send(batch)
		}
		if isRefused {
			halvings++
			if half := (len(batch) + 1) / 2; len(batch) == 1 {
				dropped++
			} else {
				batches = append(batches, batch[half:], batch[:half])
			}
			continue
		}
		if statuses == nil {
			later = append(later, batch...)
			for index := len(batches) - 1; index >= 0; index-- {
				later = append(later, batches[index]...)
			}
			break
		}
		for index, each := range batch {
			switch {
			case index < len(statuses) && statuses[index] == http.StatusOK:
			case index < len(statuses) && statuses[index] == http.StatusServiceUnavailable:
				// The log writer of this entry could not be reached. All other results are final.
				later = append(later, each)
			default:
				dropped++
			}
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.later = append(r.later, later...)
	r.dropped += dropped
}

func (r *reports) take() []waiting {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	open := make([]waiting, 0, len(r.waiting))
	for _, each := range r.waiting {
		if time.Since(each.at) < openFor {
			open = append(open, each)
		}
	}
	r.dropped += len(r.waiting) - len(open)
	count := least(least(len(open), r.left), reportsAtOnce)
	r.left -= count
	r.waiting = open[count:]
	return append([]waiting(nil), open[:count]...)
}

// send returns the status of each report, or true if the Worker does not accept the batch as it is. Otherwise the batch has to wait.
func (r *reports) send(batch []waiting) ([]int, bool) {
	bodies := make([]interface{}, len(batch))
	for index, each := range batch {
		bodies[index] = each.body
	}
	sent := map[string]interface{}{r.member: bodies}
	if r.member == "entries" {
		sent["holder"] = r.core.holder
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	status, text, err := r.core.post(ctx, "/"+r.member, body)
	if err != nil {
		r.core.say(fmt.Errorf("%d %s wait: %w", len(batch), r.member, err))
		return nil, false
	}
	if status != http.StatusOK {
		r.core.say(fmt.Errorf("the Worker responded to %d %s with %d", len(batch), r.member, status))
		return nil, status >= 400 && status < 500 && !saysNothing(status)
	}
	var results struct {
		Data []struct {
			Status int `json:"status"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &results); err != nil || results.Data == nil {
		return nil, false
	}
	statuses := make([]int, len(results.Data))
	for index, result := range results.Data {
		statuses[index] = result.Status
	}
	return statuses, false
}

// saysNothing returns whether a status says nothing about the reports themselves.
func saysNothing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return false
}
