/** `tenure serve` as a process: over TLS, and where what it needs was left out. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import https from 'node:https'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { startProgram, workshop } from '../cli/tenure-process.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

it('speaks HTTPS with a certificate and its key', async () => {
  const { directory, start } = workshop()
  const [cert, key] = [path.join(directory, 'cert.pem'), path.join(directory, 'key.pem')]
  execFileSync(
    requireTestTool('openssl'),
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-keyout', key, '-out', cert, '-days', '1', '-subj', '/CN=localhost'],
      ...['-addext', 'subjectAltName=IP:127.0.0.1'],
    ],
    { stdio: 'ignore' },
  )
  const server = start(['serve', '--listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key])
  let stdout = ''
  server.process.stdout?.on('data', (text: Buffer) => (stdout += text.toString()))
  await server.says('\n')
  expect(stdout).toMatch(/^https:\/\/127\.0\.0\.1:\d+\n$/)
  const status = await new Promise((resolve, reject) => {
    const ca = fs.readFileSync(cert)
    const request = https.get(`${stdout.trim()}/v1/leases`, { ca, agent: false }, (response) => {
      response.resume()
      response.once('end', () => resolve(response.statusCode))
    })
    request.once('error', reject)
  })
  expect(status).toBe(200)
  server.process.kill('SIGTERM')
  expect((await server.ended).code).toBe(0)
})

it('says which packages are missing where optional ones were left out', async () => {
  const { directory } = workshop()
  fs.cpSync(path.join(ROOT, 'dist'), path.join(directory, 'dist'), { recursive: true })
  fs.copyFileSync(path.join(ROOT, 'package.json'), path.join(directory, 'package.json'))
  const main = path.join(directory, 'dist/cli/main.js')
  const { code, stderr } = await startProgram([process.execPath, main, 'serve'], { cwd: directory })
    .ended
  expect(code).toBe(2)
  expect(stderr).toContain('npm install hono @hono/node-server prom-client')
})

it('refuses --operator beside tokens, which say who may what', async () => {
  const shop = workshop()
  const tokens = path.join(shop.directory, 'tokens.json')
  await shop.json(['tokens', 'create', '--name', 'ci', '--role', 'reader', '--tokens', tokens])
  const { code, stderr } = await shop.tenure(['serve', '--operator', '--tokens', tokens])
  expect(code).toBe(2)
  expect(stderr).toContain('operator must be left out where tokens say who may')
})
