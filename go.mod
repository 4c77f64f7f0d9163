module coding-proxy

go 1.25
