/**
 * The conformance suite of MCP against `/mcp` of a server, and its inspector against that and `tenure mcp`. Both need Node 22. The
 * suite has scenarios for servers with certain tools, prompts and resources: those do not apply, and the table says why of each.
 * Whatever else fails, fails here.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { provideNode22 } from '../../scripts/more-packages.mjs'
import { nodeIn } from '../../scripts/node-24.mjs'
import { MAIN, workshop } from '../cli/tenure-process.ts'
import { serving } from '../server/serving.ts'

const FIXTURE = 'calls a tool that the suite has servers make for it'
const NO_PROMPTS = 'there are no prompts'
const FIXTURE_RESOURCE = 'reads a resource that the suite has servers make for it'
const NO_SUBSCRIPTION = 'subscriptions to resources are not offered'

/** Scenarios of which a part, or everything, does not apply; none of them may fail for another reason. */
const NOT_APPLICABLE: Readonly<Record<string, string>> = {
  'logging-set-level': 'logs go to stderr',
  'completion-complete': 'there is nothing to complete',
  ...Object.fromEntries(
    [
      ...['simple-text', 'image', 'audio', 'embedded-resource', 'mixed-content', 'with-logging'],
      ...['error', 'with-progress', 'sampling', 'elicitation'],
    ].map((name) => [`tools-call-${name}`, FIXTURE]),
  ),
  'json-schema-2020-12': FIXTURE,
  'elicitation-sep1034-defaults': FIXTURE,
  'elicitation-sep1330-enums': FIXTURE,
  'resources-read-text': FIXTURE_RESOURCE,
  'resources-read-binary': FIXTURE_RESOURCE,
  'resources-templates-read': FIXTURE_RESOURCE,
  'resources-subscribe': NO_SUBSCRIPTION,
  'resources-unsubscribe': NO_SUBSCRIPTION,
  'prompts-list': NO_PROMPTS,
  ...Object.fromEntries(
    ['simple', 'with-args', 'embedded-resource', 'with-image'].map((name) => {
      return [`prompts-get-${name}`, NO_PROMPTS]
    }),
  ),
  'server-stateless': `four checks: ${FIXTURE}`,
  caching: `one check: ${NO_PROMPTS}`,
  'http-custom-header-server-validation': 'no tool asks for a header of its own',
  ...Object.fromEntries(
    [
      ...['basic-elicitation', 'basic-sampling', 'basic-list-roots', 'request-state'],
      ...['multiple-input-requests', 'multi-round', 'non-tool-request', 'result-type'],
      ...['tampered-state', 'capability-check'],
    ].map((name) => [`input-required-result-${name}`, FIXTURE]),
  ),
}

/** Of those that apply in part: how many checks must pass. */
const PARTS: Readonly<Record<string, number>> = { 'server-stateless': 24, caching: 7 }

const INSPECTOR = 'inspector/clients/launcher/build/index.js'
const TOOLS = ['acquire', 'wait', 'renew', 'release', 'status', 'list'].map(
  (name) => `lease_${name}`,
)

let node = ''
let packages = ''

beforeAll(async () => {
  const installed = await provideNode22()
  node = nodeIn(installed)
  packages = path.join(installed, '@modelcontextprotocol')
}, 10 * 60_000)

/** What a program prints. It ends with a failure where a scenario fails, and says which. */
async function run(file: string, args: readonly string[], home: string): Promise<string> {
  const child = spawn(node, [path.join(packages, file), ...args], {
    ...{ cwd: home, env: { ...process.env, HOME: home }, stdio: ['ignore', 'pipe', 'pipe'] },
  })
  let [said, complaints] = ['', '']
  child.stdout?.on('data', (text: Buffer) => (said += text.toString()))
  child.stderr?.on('data', (text: Buffer) => (complaints += text.toString()))
  await once(child, 'close')
  return said === '' ? complaints : said
}

it.each(['2025-11-25', '2026-07-28'])(
  'every scenario of %s that applies passes',
  async (version) => {
    const { url } = await serving()
    const args = ['--url', `${url}/mcp`, '--suite', 'all', '--spec-version', version]
    const said = await run('conformance/dist/index.js', ['server', ...args], workshop().directory)
    const lines = [...said.matchAll(/^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed$/gm)]
    expect(lines.length).toBeGreaterThan(25)
    const failed = lines.filter(([, , , count]) => count !== '0').map(([, name = '']) => name)
    expect(failed.filter((name) => !(name in NOT_APPLICABLE))).toEqual([])
    const parts = lines.filter(([, name = '']) => name in PARTS)
    for (const [, name = '', passed] of parts)
      expect([name, Number(passed)]).toEqual([name, PARTS[name]])
    const passed = lines.length - failed.length
    console.log(
      `${version}: ${passed} of ${lines.length} scenarios pass, ${failed.length} do not apply`,
    )
  },
)

describe.each(['stdio', 'HTTP'])('the inspector over %s', (way) => {
  it('lists the tools, takes a lease, and reads what is live', async () => {
    const { directory, storeUrl } = workshop()
    const { url } = await serving({ store: storeUrl })
    const target =
      way === 'stdio'
        ? [process.execPath, MAIN, 'mcp', '--store', storeUrl]
        : [`${url}/mcp`, '--transport', 'http']
    const inspect = async (...args: readonly string[]): Promise<unknown> => {
      const said = await run(INSPECTOR, ['--cli', ...target, '--method', ...args], directory)
      return JSON.parse(said) as unknown
    }
    const { tools } = (await inspect('tools/list')) as { tools: { name: string }[] }
    expect(tools.map(({ name }) => name)).toEqual(TOOLS)
    const asked = ['--tool-arg', 'resources=["port:5432"]', '--tool-arg', 'holder=ann']
    const taken = await inspect('tools/call', '--tool-name', 'lease_acquire', ...asked)
    expect(taken).toMatchObject({
      structuredContent: { granted: true, leases: [{ resource: 'port:5432', holder: 'ann' }] },
    })
    const read = await inspect('resources/read', '--uri', 'lease://active')
    expect(read).toMatchObject({ contents: [{ uri: 'lease://active' }] })
    console.log(`inspector over ${way}: ${tools.length} tools, a lease taken, lease://active read`)
  })
})
