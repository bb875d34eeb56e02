/**
 * For `node --import`: a program that starts an embedded PostgreSQL gets a database of the test run's own server instead.
 * Starting a server takes most of the time of an example, and packages/embedded has its own tests.
 */
import { register } from 'node:module'

register(new URL('./hooks.js', import.meta.url))
