import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/command-list.ts'
import type { CliCommand } from '../../src/cli/command.ts'
import { commandPage, overview } from '../../src/cli/help.ts'
import { ERROR_CODES, ERROR_TABLE, LeaseError } from '../../src/core/errors.ts'
import { workshop, tenure } from './tenure-process.ts'

const NAMES = Object.keys(COMMANDS)

async function find(name: string): Promise<CliCommand> {
  const command = await COMMANDS[name]?.load()
  if (command === undefined) throw new Error(`there is no ${name}`)
  return command
}

describe('help', () => {
  it('of tenure itself lists every command and every exit status', async () => {
    const { code, stdout, stderr } = await tenure(['--help'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe(`${overview()}\n`)
    for (const name of NAMES) expect(stdout).toMatch(new RegExp(`^ {2}${name} +\\S`, 'm'))
    const statuses = new Set(ERROR_CODES.map((each) => ERROR_TABLE[each].exitCode))
    for (const status of statuses) expect(stdout).toMatch(new RegExp(`\\b${status} \\w`))
  })

  it.each(NAMES)('of %s has its summary, its options and an example', async (name) => {
    const page = commandPage(name, await find(name))
    expect(page).toContain(`tenure ${name}: ${COMMANDS[name]?.summary ?? ''}`)
    expect(page).toMatch(new RegExp(`Examples?:\\n {2}tenure ${name}\\b`))
    for (const option of ['store', 'namespace', 'holder', 'session', 'json', 'help', 'version']) {
      expect(page).toContain(`--${option}`)
    }
    expect(page).toMatch(
      /--store URL +memory:, sqlite:PATH, postgres:\/\/…, redis:\/\/… or http:\/\/…/,
    )
    for (const line of page.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })

  it.each(NAMES)('of %s gives examples whose options exist', async (name) => {
    const command = await find(name)
    const known = Object.keys(command.shape.options)
    for (const example of command.examples) {
      const own = example.split(' -- ')[0] ?? ''
      for (const [, option] of own.matchAll(/ --([a-z-]+)/g)) expect(known).toContain(option)
    }
  })

  it('is the same by every road', async () => {
    const page = `${commandPage('ls', await find('ls'))}\n`
    for (const words of [
      ['help', 'ls'],
      ['ls', '-h'],
      ['ls', '--bad', '--help'],
    ]) {
      expect(await tenure(words)).toEqual({ code: 0, stdout: page, stderr: '' })
    }
  })

  it('is shown to whoever says nothing, with a status that is not success', async () => {
    const { code, stdout, stderr } = await tenure([])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toBe(`${overview()}\n`)
  })

  it('of a command that run starts is its own', async () => {
    const shop = workshop()
    const { stdout } = await shop.tenure([
      'run',
      'work:1',
      '--',
      'sh',
      '-c',
      'echo $1',
      'sh',
      '--help',
    ])
    expect(stdout).toBe('--help\n')
  })
})

describe('the version', () => {
  it.each([[['--version']], [['ls', '--version']]])('is told to %j', async (words) => {
    const { code, stdout } = await tenure(words)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

describe('exit statuses', () => {
  /** DESIGN section 10, written down a second time here on purpose. */
  const EXPECTED: Readonly<Record<string, number>> = {
    RESOURCE_HELD: 10,
    DEADLOCK: 10,
    RENEWAL_LIMIT: 10,
    SCOPE_VIOLATION: 10,
    BUDGET_EXHAUSTED: 10,
    WAIT_TIMEOUT: 11,
    NOT_HOLDER: 12,
    UNAUTHORIZED: 12,
    LEASE_NOT_FOUND: 13,
    LEASE_TERMINAL: 13,
    LEASE_EXPIRED: 13,
    LEASE_LOST: 14,
    STALE_EPOCH: 14,
    STALE_FENCE: 14,
    STORE_UNAVAILABLE: 15,
    STORE_CONFLICT: 15,
    STORE_OUTCOME_UNKNOWN: 15,
    STORE_SCHEMA: 15,
    INVALID_INPUT: 2,
    INVALID_STATE: 2,
    INVALID_REASON: 2,
    INVALID_EXPIRATION: 2,
    INVALID_SIGNATURE: 2,
    INVALID_DERIVATION: 2,
    LIMIT_EXCEEDED: 2,
  }

  it.each(ERROR_CODES)('%s is what the table says', async (code) => {
    const { reportError } = await import('../../src/cli/report-error.ts')
    const error = new LeaseError(code, 'made for this test')
    const lines: string[] = []
    const status = reportError(error, {
      json: false,
      debug: false,
      write: (text) => lines.push(text),
    })
    expect(status).toBe(EXPECTED[code] ?? ERROR_TABLE[code].exitCode)
    expect(lines).toEqual([`tenure: made for this test (${code})\n`])
  })
})
