module github.com/pinfold-zk/pinfold/test/gozk

go 1.26

require github.com/go-zookeeper/zk v1.0.4 // indirect
