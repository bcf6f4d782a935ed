package znode

import "testing"

func TestTopName(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "", "/a": "a", "/a/b": "a", "/zookeeper/quota/x": "zookeeper", "odd": "", "//x": "",
	} {
		if got := TopName(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestLimitsThatCount(t *testing.T) {
	for text, want := range map[string][2]int64{
		"count=5,bytes=7": {5, 7},
		"count=5,bytes=7=;byteHardLimit=9;countHardLimit=-1":   {5, 9},
		"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3": {3, -1},
		"count=-1,bytes=-1": {-1, -1},
	} {
		if count, bytes := ParseQuota([]byte(text)).Limits(); count != want[0] || bytes != want[1] {
			t.Errorf("%s: %d, %d, want %v", text, count, bytes, want)
		}
	}
}
