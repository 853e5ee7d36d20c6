/** How long a tool takes, beside the same over plain HTTP, and how many tokens a model pays for the list of tools. */
import { performance } from 'node:perf_hooks'
import { expect, it } from 'vitest'
import { workshop } from '../cli/tenure-process.ts'
import { serving } from '../server/serving.ts'
import { call, httpClient, stdioClient, type McpClient } from './mcp-clients.ts'

const KIND = { line: '2.x', mode: { pin: '2026-07-28' } } as const
const CALLS = 500
const WARM_UP = 50
/** What is commonly taken for English and JSON; a tokenizer of a certain model counts a little otherwise. */
const CHARACTERS_PER_TOKEN = 4
const TOKENS_MAX = 1_500

async function timesOf(work: (round: number) => Promise<unknown>): Promise<readonly number[]> {
  const times: number[] = []
  for (let round = 0; round < CALLS + WARM_UP; round += 1) {
    const startMs = performance.now()
    await work(round)
    times.push(performance.now() - startMs)
  }
  return times.slice(WARM_UP).toSorted((a, b) => a - b)
}

function say(what: string, times: readonly number[]): void {
  const [half = 0, late = 0] = [0.5, 0.99].map((share) => times[Math.floor(times.length * share)])
  console.log(`${what}: median ${half.toFixed(2)} ms, p99 ${late.toFixed(2)} ms`)
}

async function acquiring(client: McpClient): Promise<readonly number[]> {
  return timesOf(async (round) => {
    const asked = { resources: [`work:${round}`], holder: `holder-${round}` }
    await call(client, 'lease_acquire', asked)
  })
}

it('a call of a tool', async () => {
  const { directory: cwd, storeUrl } = workshop()
  const served = await serving({ store: storeUrl })
  const http = await httpClient(KIND, served.url)
  const stdio = await stdioClient(KIND, { args: ['--store', `${storeUrl}.stdio`], cwd })
  say('lease_acquire over stdio', await acquiring(stdio))
  say('lease_acquire over HTTP', await acquiring(http))
  const plain = async (round: number): Promise<void> => {
    const body = { resource: `plain:${round}`, holder: `holder-${round}` }
    expect((await served.ask('POST /v1/leases', { body })).status).toBe(201)
  }
  say('POST /v1/leases', await timesOf(plain))
})

it('the list of tools', async () => {
  const { url } = await serving()
  const { tools } = await (await httpClient(KIND, url)).listTools()
  const tokensOf = (value: unknown): number => {
    return Math.ceil(JSON.stringify(value).length / CHARACTERS_PER_TOKEN)
  }
  const [all, asked] = [
    tokensOf(tools),
    tokensOf(tools.map(({ outputSchema: _output, ...rest }) => rest)),
  ]
  console.log(`the list of tools: about ${asked} tokens, ${all} with what they answer`)
  expect(all).toBeLessThan(TOKENS_MAX)
})
