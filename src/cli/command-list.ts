/** All commands, in the order of help. Each is loaded when it is called: `tenure ls` must not pay for the others. */
import type { Command } from './command.ts'

export interface CommandEntry {
  readonly summary: string
  readonly load: () => Promise<Command>
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  run: {
    summary: 'Run a command while holding a lease, or several',
    load: async () => (await import('./commands/run.ts')).run,
  },
  acquire: {
    summary: 'Take a lease, or several, and leave them with their holder',
    load: async () => (await import('./commands/acquire.ts')).acquire,
  },
  renew: {
    summary: 'Give a lease a new deadline',
    load: async () => (await import('./commands/renew.ts')).renew,
  },
  release: {
    summary: 'Give a lease back',
    load: async () => (await import('./commands/release.ts')).release,
  },
  upgrade: {
    summary: 'Have alone what you share',
    load: async () => (await import('./commands/upgrade.ts')).upgrade,
  },
  downgrade: {
    summary: 'Share what you have alone',
    load: async () => (await import('./commands/downgrade.ts')).downgrade,
  },
  transfer: {
    summary: 'Give a lease to another holder, or to the next in the queue',
    load: async () => (await import('./commands/transfer.ts')).transfer,
  },
  adopt: {
    summary: 'Take over a lease that was transferred to you',
    load: async () => (await import('./commands/adopt.ts')).adopt,
  },
  derive: {
    summary: 'Give another holder a part of a lease, with less of everything',
    load: async () => (await import('./commands/derive.ts')).derive,
  },
  spend: {
    summary: 'Use up some of the budget of a lease',
    load: async () => (await import('./commands/spend.ts')).spend,
  },
  revoke: {
    summary: 'End a lease, whoever holds it, at once or after a grace',
    load: async () => (await import('./commands/revoke.ts')).revoke,
  },
  'release-all': {
    summary: 'End every lease of a holder',
    load: async () => (await import('./commands/release-all.ts')).releaseAll,
  },
  ls: {
    summary: 'List leases and those who wait',
    load: async () => (await import('./commands/ls.ts')).ls,
  },
  show: {
    summary: 'Show all there is to know about one lease',
    load: async () => (await import('./commands/show.ts')).show,
  },
  why: {
    summary: 'Say who holds a resource, why, and who waits for it',
    load: async () => (await import('./commands/why.ts')).why,
  },
  wait: {
    summary: 'Wait until a resource is free, and take nothing',
    load: async () => (await import('./commands/wait.ts')).wait,
  },
  history: {
    summary: 'Show what happened, from the ledger',
    load: async () => (await import('./commands/history.ts')).history,
  },
  watch: {
    summary: 'Follow the ledger as it grows',
    load: async () => (await import('./commands/watch.ts')).watch,
  },
  fleet: {
    summary: 'Show who polls what in a fleet, and empty an instance',
    load: async () => (await import('./commands/fleet.ts')).fleet,
  },
  cleanup: {
    summary: 'Write down what has expired and prune what need not be kept',
    load: async () => (await import('./commands/cleanup.ts')).cleanup,
  },
  config: {
    summary: 'Read and change the configuration of the store',
    load: async () => (await import('./commands/config.ts')).config,
  },
  ledger: {
    summary: 'Seal the ledger, prove that it is whole, and ask it about the past',
    load: async () => (await import('./commands/ledger.ts')).ledger,
  },
  import: {
    summary: 'Take over the database of another system into a new store',
    load: async () => (await import('./commands/import.ts')).importCommand,
  },
  authorize: {
    summary: 'Say whether a signed grant allows something, without a store',
    load: async () => (await import('./commands/authorize.ts')).authorize,
  },
  keys: {
    summary: 'Make, rotate and hand out the keys that sign grants and checkpoints',
    load: async () => (await import('./commands/keys.ts')).keys,
  },
  serve: {
    summary: 'Serve the store over HTTP, to every language and host',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  tokens: {
    summary: 'Make, list and revoke the tokens that a server asks for',
    load: async () => (await import('./commands/tokens.ts')).tokens,
  },
  guard: {
    summary: "Create the table that a guard needs in one's own database",
    load: async () => (await import('./commands/guard.ts')).guardCommand,
  },
  hook: {
    summary: "Answer an event of a coding agent's client, before and after what it does",
    load: async () => (await import('./commands/hook.ts')).hook,
  },
  mcp: {
    summary: 'Serve leases to a model over MCP, on stdin and stdout',
    load: async () => (await import('./commands/mcp.ts')).mcp,
  },
  init: {
    summary: 'Set up what asks Tenure: the hooks of coding agents and of git, MCP, Git LFS',
    load: async () => (await import('./commands/init.ts')).init,
  },
  git: {
    summary: 'Refuse a commit or a push that touches what others hold; for the hooks of git',
    load: async () => (await import('./commands/git.ts')).gitCommand,
  },
  doctor: {
    summary: 'Check that everything needed is there and works',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  demo: {
    summary: 'Watch five agents share a handful of files for 15 seconds',
    load: async () => (await import('./commands/demo.ts')).demo,
  },
}
