#!/bin/sh
# Writes the stores of the tests anew, with keytool and openssl. The password is changeit.
set -eu
rm -f ./*.jks ./*.p12 ./*.pem
pass="-storepass changeit"
keytool -genkeypair -alias Server -keyalg EC -groupname secp256r1 -dname "CN=server, O=Test" -validity 36500 \
	-storetype JKS -keystore keys.jks $pass -keypass changeit
keytool -genkeypair -alias server -keyalg RSA -keysize 2048 -dname "CN=server, O=Test" -validity 36500 \
	-storetype PKCS12 -keystore keys.p12 $pass
cp keys.p12 named.jks
keytool -exportcert -rfc -alias server -keystore keys.jks $pass >cert.pem
for type in JKS PKCS12; do
	suffix=$([ $type = JKS ] && echo jks || echo p12)
	keytool -importcert -noprompt -alias one -file cert.pem -storetype $type -keystore trust.$suffix $pass
done
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -subj /O=Test/CN=openssl \
	-days 36500 -out own.pem
cat key.pem own.pem >keys.pem
openssl pkcs8 -topk8 -v2 aes256 -in key.pem -passout pass:changeit -out encrypted-key.pem
cat encrypted-key.pem own.pem >encrypted.pem
openssl pkcs12 -export -in keys.pem -out openssl.p12 -passout pass:changeit
openssl pkcs12 -export -nokeys -in own.pem -out untrusted.p12 -passout pass:changeit
cat own.pem cert.pem >trust.pem
rm key.pem own.pem encrypted-key.pem cert.pem
