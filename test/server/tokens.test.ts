/** Tokens as people make and revoke them, and where a server without them may listen. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { request } from 'node:http'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { workshop } from '../cli/tenure-process.ts'
import { ask, serving } from './serving.ts'

interface Held {
  readonly id: string
  readonly tokenName?: string
}

interface Created {
  readonly token: string
  readonly name: string
  readonly role: string
  readonly as: readonly string[]
}

describe('tenure tokens', () => {
  it('shows a token once, and keeps only its hash in a file that its owner alone can read', async () => {
    const { json, directory } = workshop()
    const file = path.join(directory, 'tokens.json')
    const created = await json<Created>([
      ...['tokens', 'create', '--tokens', file, '--name', 'ci', '--as', 'ci-*,build'],
      ...['--resource', 'work:,file:/repo', '--max-leases', '5', '--max-ttl', '1h', '--json'],
    ])
    expect(created).toMatchObject({ name: 'ci', role: 'holder', as: ['ci-*', 'build'] })
    expect(fs.readFileSync(file, 'utf8')).not.toContain(created.token)
    expect(fs.statSync(file).mode & 0o777).toBe(0o600)
    const listed = await json<{ tokens: unknown[] }>(['tokens', 'ls', '--tokens', file, '--json'])
    expect(listed.tokens).toMatchObject([
      { name: 'ci', resources: ['work:', 'file:/repo'], maxLeases: 5, maxTtlMs: 3_600_000 },
    ])
    expect(JSON.stringify(listed)).not.toContain('hash')
  })

  it('refuses a second token of the same name, and a name that nobody has', async () => {
    const { hosted, directory } = workshop()
    const file = ['--tokens', path.join(directory, 'tokens.json')]
    await hosted(['tokens', 'create', '--name', 'ci', ...file])
    const again = await hosted(['tokens', 'create', '--name', 'ci', ...file])
    expect(again).toMatchObject({ code: 2 })
    expect(again.stderr).toContain('name must be new, got "ci"')
    const unknown = await hosted(['tokens', 'revoke', 'cd', ...file])
    expect(unknown.stderr).toContain('name must be that of a token, got "cd"')
  })

  it('loses nothing of what several commands change at once', async () => {
    const { tenure, directory } = workshop()
    const file = ['--tokens', path.join(directory, 'tokens.json')]
    await tenure(['tokens', 'create', '--name', 'old', ...file])
    const names = ['a', 'b', 'c', 'd']
    const ended = await Promise.all([
      tenure(['tokens', 'revoke', 'old', ...file]),
      ...names.map((name) => tenure(['tokens', 'create', '--name', name, ...file])),
    ])
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0])
    const { stdout } = await tenure(['tokens', 'ls', '--json', ...file])
    const { tokens } = JSON.parse(stdout) as { readonly tokens: readonly { name: string }[] }
    expect(tokens.map(({ name }) => name).toSorted()).toEqual(names)
  })

  it('is not used while others can read its file', async () => {
    const { hosted, directory } = workshop()
    const file = path.join(directory, 'tokens.json')
    await hosted(['tokens', 'create', '--name', 'ci', '--tokens', file])
    fs.chmodSync(file, 0o644)
    const listed = await hosted(['tokens', 'ls', '--tokens', file])
    expect(listed.stderr).toContain('must be readable by its owner only')
  })
})

describe('tenure serve', () => {
  it('prints its URL, answers, logs each request without secrets, and ends at SIGTERM', async () => {
    const shop = workshop()
    const file = path.join(shop.directory, 'tokens.json')
    const { token } = await shop.json<Created>([
      ...['tokens', 'create', '--tokens', file, '--name', 'ci', '--json'],
    ])
    const running = shop.start([
      ...['serve', '--listen', '127.0.0.1:0', '--tokens', file, '--log', 'json'],
    ])
    let stdout = ''
    running.process.stdout?.on('data', (text: Buffer) => (stdout += text.toString()))
    await running.says('\n')
    const url = stdout.trim()
    const body = { resource: 'work:W-1', holder: 'ci' }
    const answer = await ask(url, 'POST /v1/leases?secret=yes', { token, body })
    expect(answer.status).toBe(400)
    expect((await ask(url, 'POST /v1/leases', { token, body })).status).toBe(201)
    running.process.kill('SIGTERM')
    const { code, stderr } = await running.ended
    expect(code).toBe(0)
    const lines = stderr.trim().split('\n').slice(1)
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { method: 'POST', path: '/v1/leases', status: 400, token: 'ci' },
      { method: 'POST', path: '/v1/leases', status: 201, token: 'ci' },
    ])
    expect(stderr).not.toMatch(/secret|tenure_/)
  })

  it.each([
    [['--listen', '0.0.0.0:0'], 'must be a loopback address without --tokens'],
    [['--listen', '[::]:0', '--tokens', 'tokens.json'], 'without --tls-cert and --tls-key'],
    [['--listen', '7420'], 'listen must be HOST:PORT'],
    [['--tokens', 'missing.json'], 'must be a file that tokens create has made'],
    [['--tls-cert', 'cert.pem'], 'tls-key must be given with --tls-cert'],
  ])('refuses to start with %j', async (args, message) => {
    const shop = workshop()
    await shop.hosted(['tokens', 'create', '--name', 'ci', '--tokens', 'tokens.json'])
    const { code, stderr } = await shop.hosted(['serve', ...args])
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
  })
})

describe('a running server', () => {
  it('refuses a token from the moment it is revoked, and takes one from the moment it is made', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'reader' })
    expect((await server.ask('GET /v1/leases', { token })).status).toBe(200)
    const { hosted } = workshop()
    await hosted(['tokens', 'revoke', 'ci', '--tokens', server.tokenFile])
    expect((await server.ask('GET /v1/leases', { token })).status).toBe(401)
  })

  it('writes the name of the token into the leases and tickets that it asks for', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'holder', as: ['*'] })
    const ask = async <Body>(line: string, body: object): Promise<Body> => {
      return (await server.ask<Body>(line, { token, body })).body
    }
    const { lease } = await ask<{ lease: Held }>('POST /v1/leases', {
      ...{ resource: 'work:1', holder: 'ann', budget: { tokens: 1 } },
    })
    expect(lease.tokenName).toBe('ci')
    const derived = await ask<{ lease: Held }>(`POST /v1/leases/${lease.id}/derive`, {
      ...{ by: 'ann', holder: 'kid', budget: { tokens: 1 } },
    })
    expect(derived.lease.tokenName).toBe('ci')
    await ask(`POST /v1/leases/${lease.id}/renew`, { holder: 'ann' })
    const forged = { tokenName: 'root' }
    expect(
      await ask('POST /v1/leases', { resource: 'work:2', holder: 'ann', ...forged }),
    ).toMatchObject({ status: 400, detail: expect.stringContaining('tokenName') as string })
    // The library's client, by way of a batch: a ticket, and what its own client says of it.
    const api = await openApi(server.url, { token })
    onTestFinished(() => api.close())
    const wanted = { id: randomUUID(), resource: 'work:1', holder: 'bob', session: 's', ...forged }
    // Nobody keeps its place alive while two commands are run.
    await api.acquire({ ...wanted, waitMs: 60_000, claimWindowMs: 60_000 } as never)
    const shop = workshop()
    const env = { TENURE_STORE: server.url, TENURE_TOKEN: token }
    const told = await shop.tenure(['history', 'work:1'], { env })
    expect(told.stdout).toMatch(/acquired +work:1 +ann \(token ci\) /)
    expect(told.stdout).toMatch(/queued +work:1 +bob \(token ci\) /)
    const why = await shop.tenure(['why', 'work:1'], { env })
    expect(why.stdout).toContain('work:1 is held by ann (token ci)')
    expect(why.stdout).toContain('1. bob (token ci), waiting')
  })

  it('allows nobody anything while its token file makes no sense', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'reader' })
    const text = fs.readFileSync(server.tokenFile, 'utf8')
    fs.writeFileSync(server.tokenFile, text.slice(0, -10))
    expect((await server.ask('GET /v1/leases', { token })).status).toBe(401)
    fs.writeFileSync(server.tokenFile, text)
    expect((await server.ask('GET /v1/leases', { token })).status).toBe(200)
  })

  it('counts requests of a token, and never its renewals and releases', async () => {
    const server = await serving({ withTokens: true, requestsPerSecond: 1 })
    const token = server.token({ name: 'ci', role: 'holder', maxRequests: 3 })
    const body = { resource: 'work:W-1', holder: 'ci' }
    const { body: made } = await server.ask<{ lease: { id: string } }>('POST /v1/leases', {
      token,
      body,
    })
    const statuses = await Promise.all(
      Array.from(
        { length: 20 },
        async () => (await server.ask('GET /v1/leases', { token })).status,
      ),
    )
    expect(new Set(statuses)).toEqual(new Set([200, 429]))
    for (const verb of ['renew', 'release']) {
      const own = { token, body: { holder: 'ci' } }
      expect((await server.ask(`POST /v1/leases/${made.lease.id}/${verb}`, own)).status).toBe(200)
    }
  })

  it('counts on where the file of the tokens has changed, and the token has not', async () => {
    const runtime = { ...systemRuntime, monotonicMs: () => 0 }
    const server = await serving({ withTokens: true, runtime })
    const token = server.token({ name: 'ci', role: 'reader', maxRequests: 1 })
    const look = async (): Promise<number> => (await server.ask('GET /v1/leases', { token })).status
    expect([await look(), await look()]).toEqual([200, 429])
    server.token({ name: 'another', role: 'reader' })
    expect(await look()).toBe(429)
  })

  it('takes no more leases of a token than its quota, TTL and priority allow', async () => {
    const server = await serving({ withTokens: true })
    const limits = { maxLeases: 1, maxTtlMs: 60_000, maxPriority: 0 }
    const token = server.token({ name: 'ci', role: 'holder', ...limits })
    const post = (body: object) =>
      server.ask('POST /v1/leases', { token, body: { holder: 'ci', ...body } })
    expect(await post({ resource: 'work:1', ttlMs: 60_001 })).toMatchObject({
      status: 403,
      body: { detail: 'ttlMs must be at most 60000 for ci, got 60001' },
    })
    expect(await post({ resource: 'work:1', lockDelayMs: 60_001 })).toMatchObject({
      status: 403,
      body: { detail: 'lockDelayMs must be at most 60000 for ci, got 60001' },
    })
    expect(await post({ resource: 'work:1', priority: 1 })).toMatchObject({ status: 403 })
    const granted = await post({ resource: 'work:1' })
    expect(granted).toMatchObject({ status: 201, body: { lease: { ttlMs: 60_000 } } })
    const second = await untilCounted(() => post({ resource: `work:${Math.random()}` }))
    expect(second).toMatchObject({ status: 429, body: { code: 'LIMIT_EXCEEDED', retryable: true } })
  })

  it('counts every lease of a request for several, and none that is asked for again', async () => {
    const server = await serving({ withTokens: true })
    const token = server.token({ name: 'ci', role: 'holder', maxLeases: 2 })
    const post = (resources: readonly string[], ids: readonly string[] = []) => {
      const members = resources.map((resource, index) => ({ resource, id: ids[index] }))
      return server.ask('POST /v1/leases/all', { token, body: { holder: 'ci', members } })
    }
    expect(await post(['work:1', 'work:2', 'work:3'])).toMatchObject({ status: 429 })
    const ids = [randomUUID(), randomUUID()]
    expect(await post(['work:1', 'work:2'], ids)).toMatchObject({ status: 201 })
    await untilCounted(() => post([`work:${Math.random()}`]))
    expect(await post(['work:1', 'work:2'], ids)).toMatchObject({ status: 201 })
  })
})

/** A quota counts what the ledger tells, which may be a moment behind. */
async function untilCounted<Answer extends { readonly status: number }>(
  post: () => Promise<Answer>,
): Promise<Answer> {
  for (;;) {
    const answer = await post()
    if (answer.status !== 201) return answer
  }
}

describe('a server without tokens', () => {
  it.each([
    [{ Host: 'evil.example' }, 403],
    [{ Host: 'localhost.evil.example:7420' }, 403],
    [{ Host: '127.0.0.1.evil.example' }, 403],
    [{ Origin: 'https://evil.example' }, 403],
    [{ Origin: 'null' }, 403],
    [{ Host: 'localhost' }, 200],
    [{ Host: '[::1]:7420' }, 200],
  ])('takes requests of this host only: %j gives %i', async (headers, status) => {
    const server = await serving()
    expect(await statusOf(server.url, headers)).toBe(status)
  })

  it('takes those of its own origin', async () => {
    const server = await serving()
    const { host } = new URL(server.url)
    expect(await statusOf(server.url, { Host: host, Origin: server.url })).toBe(200)
  })
})

async function statusOf(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/v1/leases`, { headers, agent: false }, (response) => {
      response.resume()
      response.once('end', () => resolve(response.statusCode ?? 0))
    })
    sent.once('error', reject)
    sent.end()
  })
}
