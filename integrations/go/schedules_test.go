package developeroverview

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// integrations/schedules.txt has a thousand schedules of a process that holds leases, one in each line. The client for Node replays them, too.

type said [8]interface{}

func (s said) item() *item {
	status := int(s[0].(float64))
	allowed := status == 200
	code, _ := s[1].(string)
	lease, _ := s[4].(string)
	used := int(s[2].(float64))
	answer := Answer{
		Allowed: allowed, Status: status, Code: code, Headers: map[string]string{},
		Account: &Account{ID: "acc_1"}, Key: &Key{ID: "key_1"},
		RateLimits: []RateLimit{{Name: "hour", Limit: 5000, Used: used, Remaining: 5000 - used, ResetsAt: "2099-01-01T00:00:00.000Z"}},
	}
	return &item{
		Answer: answer, Allowed: &allowed, Order: int64(s[3].(float64)), Lease: lease,
		Units: int(s[5].(float64)), ForMs: int64(s[6].(float64)), IsUrgent: s[7].(bool),
	}
}

func number(value interface{}) int64 { return int64(value.(float64)) }

func usedIn(answer *Answer) interface{} {
	if answer == nil || !answer.Allowed {
		return nil
	}
	return float64(answer.RateLimits[0].Used)
}

func shownBack(back []unused) interface{} {
	made := []interface{}{}
	for _, each := range back {
		made = append(made, []interface{}{each.Lease, float64(each.Unused)})
	}
	return made
}

func backIn(value interface{}) []unused {
	made := []unused{}
	for _, each := range value.([]interface{}) {
		pair := each.([]interface{})
		made = append(made, unused{pair[0].(string), int(number(pair[1]))})
	}
	return made
}

// play plays a step, and returns what the process does and what it should do.
func play(l *leases, step []interface{}) (interface{}, interface{}) {
	last := step[len(step)-1]
	now := func(at int) moment { return moment{number(step[at]), number(step[at+1])} }
	switch step[0] {
	case "admit":
		return usedIn(l.admit("one", Request{Cost: int(number(step[3]))}, now(1), false)), last
	case "ask":
		asked := l.question("one", now(1), int(number(step[3])), 0)
		return []interface{}{float64(asked.Want), shownBack(asked.Back)}, step[4:]
	case "take":
		var told said
		copy(told[:], step[7].([]interface{}))
		asked := question{at: now(1), Want: int(number(step[3]))}
		return usedIn(l.take("one", asked, int(number(step[4])), nil, told.item(), now(5))), last
	case "lost":
		l.keepBack("one", question{Want: int(number(step[1])), Back: backIn(step[2])})
		return nil, nil
	}
	items := []interface{}{}
	for _, each := range l.due(now(1), step[3].(bool)) {
		items = append(items, []interface{}{float64(each.Want), shownBack(each.Back)})
	}
	return items, last
}

func TestDecidesAsInEachRecordedSchedule(t *testing.T) {
	file, err := os.Open("../schedules.txt")
	if os.IsNotExist(err) {
		t.Skip("the schedules are not part of the module")
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for ; lines.Scan(); count++ {
		var steps [][]interface{}
		if err := json.Unmarshal(lines.Bytes(), &steps); err != nil {
			t.Fatal(err)
		}
		l := newLeases("")
		for index, step := range steps {
			if done, expected := play(l, step); !reflect.DeepEqual(done, expected) {
				t.Fatalf("schedule %d, step %d %v: %v, not %v", count, index, step, done, expected)
			}
		}
	}
	if count != 1000 {
		t.Fatalf("there are %d schedules", count)
	}
}
