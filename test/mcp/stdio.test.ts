/** `tenure mcp`: a process that keeps what it took for its model, and gives it back at its end. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { runProgram } from '../../src/runtime/programs.ts'
import { MAIN, tenure, until, workshop, type Workshop } from '../cli/tenure-process.ts'
import { temporaryRepository } from '../git/temporary-repository.ts'
import { ask, call, stdioClient, type McpClient } from './mcp-clients.ts'

const KIND = { line: '2.x', mode: { pin: '2026-07-28' } } as const

function agent({ storeUrl, directory }: Workshop, args: readonly string[]): Promise<McpClient> {
  return stdioClient(KIND, { args: ['--store', storeUrl, ...args], cwd: directory })
}

async function leasesIn(shop: Workshop): Promise<readonly LeaseInfo[]> {
  return (await shop.json<{ leases: readonly LeaseInfo[] }>(['ls'])).leases
}

it('renews while it lives, up to the longest hold, and releases when its stdin ends', async () => {
  const shop = workshop()
  const client = await agent(shop, ['--holder', 'ann'])
  const asked = { resources: ['app.ts', 'src/'], ttlMs: 3_000 }
  expect((await ask(client, 'lease_acquire', asked)).granted).toBe(true)
  await until(async () => (await leasesIn(shop)).every(({ renewals }) => renewals > 0))
  expect(await leasesIn(shop)).toMatchObject([
    { resource: `file:${shop.directory}/app.ts`, holder: 'ann', maxHoldMs: 14_400_000 },
    { resource: `file:${shop.directory}/src`, extent: 'subtree' },
  ])
  await client.close()
  expect(await leasesIn(shop)).toEqual([])
  expect(await shop.json(['history', '--type', 'expired'])).toEqual([])
})

it('stops renewing what was released, and tells of what was lost', async () => {
  const shop = workshop()
  const client = await agent(shop, ['--holder', 'ann'])
  const asked = { resources: ['work:1', 'work:2'], ttlMs: 60_000 }
  const [one, two] = (await ask(client, 'lease_acquire', asked)).leases
  await shop.json(['revoke', two?.id ?? '', '--reason', 'wanted'])
  const leases = [one?.id, two?.id]
  expect(await call(client, 'lease_renew', { leases })).toMatchObject({
    renewed: [{ id: one?.id }],
    refused: [{ id: two?.id, message: expect.stringContaining('revoked') }],
  })
  await call(client, 'lease_release', { leases: [one?.id] })
  expect(await leasesIn(shop)).toEqual([])
})

it('takes paths from its root, and the store of the repository there', async () => {
  const { root, directory } = temporaryRepository()
  const link = path.join(directory, 'link')
  fs.symlinkSync(root, link)
  const args = ['--root', link, '--holder', 'ann']
  const client = await stdioClient(KIND, { args, cwd: directory })
  const { leases } = await ask(client, 'lease_acquire', { resources: ['a.ts'] })
  expect(leases[0]?.resource).toBe(`file:${root}/a.ts`)
  expect(fs.existsSync(path.join(root, '.git/tenure.db'))).toBe(true)
})

it('answers a line that is no JSON, or no message, and goes on', async () => {
  const shop = workshop()
  const request = '{"jsonrpc":"2.0","id":7,"method":"tools/list"}'
  const input = `{"jsonrpc":\n\n[]\n{"id":6,"method":"tools/list"}\n${request}\n`
  const until = /"id":7.*\n/
  const command = [process.execPath, MAIN, 'mcp', '--store', shop.storeUrl]
  const { stdout } = await runProgram(command, {
    cwd: shop.directory,
    input,
    until,
    limitMs: 30_000,
  })
  const answers = stdout
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  expect(answers).toMatchObject([
    { id: null, error: { code: -32_700 } },
    { id: null, error: { code: -32_600 } },
    { id: 6, error: { code: -32_600 } },
    { id: 7 },
  ])
})

it('releases what it took although nobody reads its answers any more', async () => {
  const shop = workshop()
  const args = [MAIN, 'mcp', '--store', shop.storeUrl, '--holder', 'ann']
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  const tell = (message: object): void => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }
  const clientInfo = { name: 'test', version: '1' }
  const about = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
  tell({ id: 1, method: 'initialize', params: about })
  await once(child.stdout, 'data')
  tell({ method: 'notifications/initialized' })
  const asked = { name: 'lease_acquire', arguments: { resources: ['work:1'] } }
  tell({ id: 2, method: 'tools/call', params: asked })
  await until(async () => (await leasesIn(shop)).length === 1)
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.end('no message\n')
  expect(await ended).toEqual([0, null])
  expect(await leasesIn(shop)).toEqual([])
})

it('gives back what it was granted while its stdin ended', async () => {
  const shop = workshop()
  const args = [MAIN, 'mcp', '--store', shop.storeUrl, '--holder', 'ann']
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  const clientInfo = { name: 'test', version: '1' }
  const about = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
  const asked = { name: 'lease_acquire', arguments: { resources: ['work:1'] } }
  const messages = [
    { id: 1, method: 'initialize', params: about },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: asked },
  ].map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  child.stdin.end(messages.join(''))
  child.stdout.resume()
  expect(await ended).toEqual([0, null])
  expect(await leasesIn(shop)).toEqual([])
})

it('says in one line that its root is no directory', async () => {
  const { code, stdout, stderr } = await tenure(['mcp', '--root', '/nowhere/at/all'])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^tenure: root must be a directory, got "\/nowhere\/at\/all".*\n$/)
})
